#!/bin/sh
# readme-in-base.sh: runs commands of README.md, those in /packages/commands, on an empty system
# (packaging/in-base.sh), with the packages that they install. The user is root, who needs no sudo there.
set -eu
mkdir -p /root/weft/build
cd /root/weft
ln -s /packages build/packages
ln -s /packages/examples examples
# The packages have been made.
make() { :; }
sudo() { "$@"; }
. /packages/commands
