package scaffold

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/taskengine/taskengine"
)

// sdkFolder is the folder of the SDK in a new project: the SDK is in no
// registry yet.
const sdkFolder = "sdk"

// vendored has the sources that a project in a language gets: files and folders of this
// repository, and where they go in the project.
var vendored = map[string]map[string]string{
	"go": {
		license: "sdk/LICENSE", "go.mod": "sdk/go.mod", "go.sum": "sdk/go.sum", "task": "sdk/task", "steps": "sdk/steps",
		"internal/wakeup": "sdk/internal/wakeup", "internal/workpool": "sdk/internal/workpool",
		"plugins/handler": "sdk/plugins/handler", "plugins/internal/wire": "sdk/plugins/internal/wire",
	},
	"python": {license: "taskengine/LICENSE", "plugins/sdk/python/taskengine": "taskengine"}, // Python finds it there
	"node":   {license: "sdk/LICENSE", "plugins/sdk/node": sdkFolder, protocol: "sdk/handler.proto", api: "sdk/taskengine.proto"},
	"java":   {license: "sdk/LICENSE", "plugins/sdk/java": sdkFolder, protocol: "sdk/handler.proto", api: "sdk/taskengine.proto"},
}

// protocol is the file that describes the protocol, and protocolFrom its path in the packages. api and apiFrom are the
// same for the API.
const (
	license      = "LICENSE"
	protocol     = "plugins/internal/wire/handler.proto"
	protocolFrom = "../../internal/wire/handler.proto"
	api          = "server/proto/taskengine/v1/taskengine.proto"
	apiFrom      = "../../../server/proto/taskengine/v1/taskengine.proto"
)

// vendor puts the package of a language into a project.
func vendor(folder, lang string) error {
	for from, to := range vendored[lang] {
		err := fs.WalkDir(taskengine.Sources, from, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			content, err := taskengine.Sources.ReadFile(file)
			if err != nil {
				return err
			}
			target := filepath.Join(folder, filepath.FromSlash(path.Join(to, strings.TrimPrefix(file, from))))
			if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
				return err
			}
			text := strings.NewReplacer(protocolFrom, "handler.proto", apiFrom, "taskengine.proto").Replace(string(content))
			return os.WriteFile(target, []byte(text), 0o666)
		})
		if err != nil {
			return err
		}
	}
	if lang == "go" {
		return requireAll(folder)
	}
	return nil
}

// requireAll adds the requirements of the package to the module in a folder, so that it can be
// built at once.
func requireAll(folder string) error {
	own, err := taskengine.Sources.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sums, err := taskengine.Sources.ReadFile("go.sum")
	if err != nil {
		return err
	}
	_, requirements, _ := strings.Cut(string(own), "\nrequire ")
	mod, err := os.OpenFile(filepath.Join(folder, "go.mod"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := mod.WriteString("\nrequire " + requirements); err != nil {
		mod.Close()
		return err
	}
	if err := mod.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o666)
}
