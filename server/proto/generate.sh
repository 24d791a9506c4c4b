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
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
  --connect-go_out=. --connect-go_opt=paths=source_relative,simple externalscaler/externalscaler.proto
go tool -modfile=../../tools/go.mod gofumpt -w taskengine/v1/taskengine.pb.go taskengine/v1/taskenginev1connect/taskengine.connect.go \
  externalscaler/externalscaler.pb.go externalscaler/externalscalerconnect/externalscaler.connect.go
