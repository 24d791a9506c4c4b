package newnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/folder"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
	"github.com/taskengine/taskengine/config"
)

// Made is what [Write] has made.
type Made struct {
	File   string
	Folder string // of the handler program; "" without one
}

// Write writes the configuration of a new node to a file, and the handler to a folder beside it. The answers are complete. An existing
// file is replaced only if that is asked for by force, and a folder never; after an error there is nothing new, unless the folder could
// not be synced. env returns variables of the environment, which references in answers may name.
func Write(file string, a Answers, force bool, env func(string) (string, bool)) (made Made, err error) {
	if err := a.check(); err != nil {
		return Made{}, err
	}
	if err := CheckFree(file, force); err != nil {
		return Made{}, err
	}
	text, err := render(a)
	if err != nil {
		return Made{}, err
	}
	written, err := writeBeside(file, text)
	if err != nil {
		return Made{}, fmt.Errorf("write the configuration: %w; name a file in a folder that is there and can be written to", err)
	}
	defer func() { err = errors.Join(err, removed(written)) }()
	if err := validate(written, a, env); err != nil {
		return Made{}, err
	}
	made.File = file
	if a.Handler != NoHandler {
		if made.Folder, err = scaffold.New(a.Handler, filepath.Dir(file), a.Name); err != nil {
			return Made{}, err
		}
	}
	if err := place(written, file, force); err != nil {
		if made.Folder != "" {
			err = errors.Join(err, os.RemoveAll(made.Folder))
		}
		return Made{}, err
	}
	return made, folder.Sync(filepath.Dir(file))
}

// CheckFree returns an error if a file is there and is not to be replaced.
func CheckFree(file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return errThere(file)
	}
	return nil
}

// errThere returns the error for a file that is not to be replaced.
func errThere(file string) error {
	return exit.Errorf(exit.Failure, "%s is there already, and is not overwritten: name another file, or use --force", file)
}

// writeBeside writes a file with a name of its own in the folder of another one, and syncs it.
func writeBeside(file, text string) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// removed removes a file, which may be gone.
func removed(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// validate checks a configuration as `config check` does, without looking at this machine.
func validate(file string, a Answers, env func(string) (string, bool)) error {
	_, err := config.Load(file, nil, func(name string) (string, bool) {
		if name == a.URLEnv {
			return "postgres://localhost/tasks", true
		}
		return env(name)
	})
	var found *config.Errors
	if !errors.As(err, &found) {
		return err
	}
	texts := make([]string, len(found.Problems))
	for i, p := range found.Problems {
		texts[i] = p.Text
	}
	return exit.Errorf(exit.Usage, "%s", strings.Join(texts, "; "))
}

// place gives a file its name, in one step. Without force it replaces no file.
func place(written, file string, force bool) error {
	if force {
		return os.Rename(written, file)
	}
	switch err := os.Link(written, file); {
	case errors.Is(err, fs.ErrExist):
		return errThere(file)
	case err == nil:
		return nil
	}
	// The file system has no links.
	if err := CheckFree(file, false); err != nil {
		return err
	}
	return os.Rename(written, file)
}
