#!/bin/sh
# Pages a service, whose folder is services/NAME: adds a line to the file `pages`, and fails while there is a file
# `unreachable`. The payload {"service": "web", "text": "disk is full"} is on the standard input.
set -eu
payload=$(cat)
value() { printf '%s' "$payload" | sed -n 's/.*"'"$1"'": *"\([^"\\]*\)".*/\1/p'; }
service=$(value service) text=$(value text)
case $service in
'' | *[!a-z]*)
	echo "the payload names no service: $payload" >&2
	exit 65 # no other attempt can do better
	;;
esac
mkdir -p "services/$service"
cd "services/$service"
if [ -e unreachable ]; then
	echo "$service is unreachable" >&2
	exit 75
fi
# An attempt whose node was killed is repeated, and does not page again.
grep -qs "^$TASKENGINE_TASK_ID " pages || echo "$TASKENGINE_TASK_ID $text" >> pages
