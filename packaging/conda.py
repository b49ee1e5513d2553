#!/usr/bin/env python3
"""packaging/conda.py DIRECTORY [CHANNEL...]: makes the conda packages of packaging/conda/, and runs the tests
of their recipes.

DIRECTORY becomes a channel: `conda install --channel file://DIRECTORY weft-mpi`. What the recipes need comes
from the channels, by default conda-forge. $WEFT_BUILD names a directory of packaging/build.sh, whose programs
are taken; without it they are built with the compilers of the channels.
"""

import os
import re
import shutil
import sys
import tempfile

import rattler_build

from components import TOP, read

RECIPES = ("mutex/recipe.yaml", "recipe.yaml")
# Below the directory of a channel.
PLATFORMS = ("noarch", "linux-64")


def build(recipe, channel, others):
    """Makes the packages of a recipe, and tests them, in a channel; returns their paths."""
    variants = rattler_build.VariantConfig.from_file(os.path.join(TOP, "packaging/conda/variants.yaml"))
    results = recipe.run_build(
        variant_config=variants,
        tool_config=rattler_build.ToolConfiguration(test_strategy="native"),
        output_dir=channel,
        channels=[f"file://{channel}", *others],
        # The directory of the build has one name, whenever that is.
        no_build_id=True,
    )
    return [str(path) for result in results for path in result.packages]


def packages(into, others, first=()):
    """Makes the packages in a channel, after those of other recipes in the same channel."""
    version = re.search(r'^version = "(.*)"', read(os.path.join(TOP, "Cargo.toml")), re.M).group(1)
    # conda's versions have no hyphen: packaging/release.sh writes them so, too.
    release, _, candidate = version.partition("-")
    version = release + candidate.replace(".", "")
    own = os.path.join(TOP, "packaging/conda")
    if f'version: "{version}"' not in read(os.path.join(own, "recipe.yaml")):
        sys.exit(f"packaging/conda.py: the recipe has another version than Cargo.toml, whose is {version}")
    os.makedirs(into, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for platform in PLATFORMS:
            os.makedirs(os.path.join(work, platform))
        for recipe in first:
            build(recipe, work, others)
        made = []
        for name in RECIPES:
            made += build(rattler_build.Stage0Recipe.from_file(os.path.join(own, name)), work, others)
        for platform in PLATFORMS:
            shutil.rmtree(os.path.join(into, platform), ignore_errors=True)
            shutil.copytree(os.path.join(work, platform), os.path.join(into, platform))
    return [os.path.join(into, os.path.relpath(path, work)) for path in made]


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: packaging/conda.py DIRECTORY [CHANNEL...]")
    print("\n".join(packages(os.path.realpath(sys.argv[1]), sys.argv[2:] or ["conda-forge"])))


if __name__ == "__main__":
    main()
