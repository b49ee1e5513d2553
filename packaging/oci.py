#!/usr/bin/env python3
"""packaging/oci.py LAYER VERSION ARCHIVE: makes an OCI image of one layer, as an archive that `docker load`,
`podman load` and skopeo read (OCI image format 1.1, layout in a tar).

The bytes depend on the layer, the version and $SOURCE_DATE_EPOCH alone.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time

NAME = "weft"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: packaging/oci.py LAYER VERSION ARCHIVE")
    path, version, into = sys.argv[1:]
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    with open(path, "rb") as file:
        layer = file.read()
    packed = gzip.compress(layer, 9, mtime=0)
    blobs = {}

    def blob(media_type, data):
        blobs[digest(data)] = data
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": digest(data), "size": len(data)}

    def text(value):
        return json.dumps(value, indent=1, sort_keys=True).encode()

    config = blob("config.v1+json", text({
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "User": "mpiuser",
            "WorkingDir": "/home/mpiuser",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["mpiexec", "--help"],
            "Labels": {
                "org.opencontainers.image.title": "Weft",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "org.opencontainers.image.source": "https://github.com/weft-mpi/weft",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packaging/oci.sh"}],
    }))
    manifest = blob("manifest.v1+json", text({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [blob("layer.v1.tar+gzip", packed)],
    }))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": f"{NAME}:{version}"}
    files = {
        "oci-layout": text({"imageLayoutVersion": "1.0.0"}),
        "index.json": text({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [manifest],
        }),
    }
    files.update({"blobs/sha256/" + name.removeprefix("sha256:"): data for name, data in blobs.items()})
    with tarfile.open(into + ".new", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), epoch, 0o644
            archive.addfile(member, io.BytesIO(data))
    os.replace(into + ".new", into)


if __name__ == "__main__":
    main()
