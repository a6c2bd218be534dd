"""The format of a recording: schemas, writer, reader, recovery, import of foreign traces."""
