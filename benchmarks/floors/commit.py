"""Floor of a durable commit: write the bytes, wait for the disk."""

import os


def commit(descriptor, data):
    os.write(descriptor, data)
    os.fdatasync(descriptor)
