// Package taskengine has the sources of the packages that handler programs are written with, so
// that `taskengine handler new` can put them into a new project. The engine itself is the
// package engine.
package taskengine

import "embed"

// Sources has files of this repository, by their paths: what a handler program needs in each of
// the languages.
//
//go:embed LICENSE go.mod go.sum task/*.go steps/*.go internal/wakeup/*.go internal/workpool/*.go plugins/handler/*.go
//go:embed plugins/internal/wire/*.go plugins/internal/wire/handler.proto
//go:embed plugins/sdk/python/taskengine/*.py plugins/sdk/python/taskengine/client/*.py plugins/sdk/python/taskengine/py.typed
//go:embed plugins/sdk/node/*.json plugins/sdk/node/buf.gen.yaml plugins/sdk/node/src/*.ts
//go:embed plugins/sdk/node/src/client/*.ts server/proto/taskengine/v1/taskengine.proto
//go:embed plugins/sdk/java/pom.xml plugins/sdk/java/src/main
var Sources embed.FS
