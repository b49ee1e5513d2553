#!/bin/sh
# wheel-in-base.sh: tries the wheel in /packages as an ordinary user of an empty system
# (packaging/in-base.sh).
set -eu
useradd --create-home user
su - user -c 'sh /packages/tests/wheel.sh /packages/*.whl /packages/examples /packages/archives'
