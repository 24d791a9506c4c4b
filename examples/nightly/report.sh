#!/bin/sh
# Writes the report of a day. The payload {"day": "2026-05-02"} is on the standard input.
set -eu
day=$(sed 's/.*"day":"\([0-9-]*\)".*/\1/')
mkdir -p reports
echo "the report of $day, written at $(date -u +%FT%TZ)" > "reports/$day.tmp"
mv "reports/$day.tmp" "reports/$day.txt" # the same day again gives the same file
echo "\"reports/$day.txt\""
