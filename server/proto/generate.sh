#!/bin/sh
# Generates the Go code of the API. Needs protoc (3.21 or newer, Debian:
# protobuf-compiler and libprotobuf-dev); the two plugins are fetched at the versions
# pinned here.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN="$bin" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN="$bin" go install connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
  --connect-go_out=. --connect-go_opt=paths=source_relative,simple taskengine/v1/taskengine.proto
# The methods without a stream share one client of connect; see taskenginev1connect/unary.go.
client=taskengine/v1/taskenginev1connect/taskengine.connect.go
for method in $(sed -nE 's/.*:= c\.([A-Za-z]+)\.CallUnary\(.*/\1/p' "$client"); do
  sed -E -i -e "s/^(\s+$method\s+)\*connect\.Client\[/\1unary[/" -e "s/^(\s+$method: +)connect\.NewClient\[/\1newUnary[/" "$client"
done
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
  --connect-go_out=. --connect-go_opt=paths=source_relative,simple externalscaler/externalscaler.proto
go tool -modfile=../../tools/go.mod gofumpt -w taskengine/v1/taskengine.pb.go taskengine/v1/taskenginev1connect/taskengine.connect.go \
  externalscaler/externalscaler.pb.go externalscaler/externalscalerconnect/externalscaler.connect.go
