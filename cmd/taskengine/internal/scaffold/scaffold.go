// Package scaffold writes the beginnings of a handler program: a small project in one of several
// languages, with the sources of the package that it is written with.
package scaffold

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// templates has a folder for each language. A file's name is that of its template without .tmpl.
//
//go:embed templates
var templates embed.FS

// root is the folder of the languages in templates.
const root = "templates"

// programName matches names that are valid for a program, a task type, a Go module and an npm package.
var programName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const longestName = 60

// Languages returns the languages that there are templates for, sorted.
func Languages() []string {
	entries, err := templates.ReadDir(root)
	if err != nil {
		panic(err) // it is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// CheckName returns an error if a program cannot have a name.
func CheckName(name string) error {
	if !programName.MatchString(name) || len(name) > longestName {
		return exit.Errorf(exit.Usage, "the name %.80q: use 1 to %d small letters and digits, a letter first, and single hyphens between them", name, longestName)
	}
	return nil
}

// New writes a project in a language to a new folder in dir that is named as the program, and
// returns that folder. After an error there is no such folder, unless there was one before.
func New(lang, dir, name string) (string, error) {
	if !slices.Contains(Languages(), lang) {
		return "", exit.Errorf(exit.Usage, "--lang is %.40q: choose one of %s", lang, strings.Join(Languages(), ", "))
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	folder := filepath.Join(dir, name)
	switch err := os.Mkdir(folder, 0o777); {
	case errors.Is(err, fs.ErrExist):
		return "", exit.Errorf(exit.Failure, "%s is there already, and nothing is overwritten: choose another name or --dir", folder)
	case err != nil:
		return "", fmt.Errorf("%w; --dir must name a folder that is there and can be written to", err)
	}
	err := fill(folder, path.Join(root, lang), name)
	if err == nil {
		err = vendor(folder, lang)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// fill executes the templates below root for a program of this name, and writes the files.
func fill(folder, root, name string) error {
	return fs.WalkDir(templates, root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(folder, filepath.FromSlash(strings.TrimPrefix(strings.TrimSuffix(file, ".tmpl"), root)))
		if filepath.Base(target) == "gitignore" { // embed leaves out names that begin with a dot
			target = filepath.Join(filepath.Dir(target), ".gitignore")
		}
		if entry.IsDir() {
			return os.MkdirAll(target, 0o777)
		}
		t, err := template.ParseFS(templates, file)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o666)
		if strings.HasSuffix(target, ".sh") {
			mode = 0o777
		}
		out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		return errors.Join(t.Execute(out, struct{ Name string }{name}), out.Close())
	})
}

// Command returns the command by which a node starts the program that [New] writes, relative to the folder of the program. The name
// is one that [CheckName] accepts.
func Command(lang, name string) ([]string, error) {
	t, err := template.ParseFS(templates, path.Join(root, lang, "taskengine.yaml.tmpl"))
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := t.Execute(&text, struct{ Name string }{name}); err != nil {
		return nil, err
	}
	var written struct {
		Handlers map[string]struct{ Plugin []string }
	}
	if err := yaml.Unmarshal([]byte(text.String()), &written); err != nil {
		return nil, err
	}
	for _, h := range written.Handlers {
		return h.Plugin, nil
	}
	return nil, fmt.Errorf("the template of %s has no handler", lang)
}
