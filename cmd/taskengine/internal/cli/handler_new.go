package cli

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

	"github.com/spf13/cobra"
)

// scaffolds has a folder of templates for each language. A file's name is that of its
// template without .tmpl.
//
//go:embed scaffold
var scaffolds embed.FS

// programName is what a program, a task type, a Go module and an npm package may all be
// called.
var programName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const longestName = 60

func newHandlerNew(a *app) *cobra.Command {
	var lang, dir string
	cmd := &cobra.Command{
		Use:   "new --lang LANGUAGE NAME",
		Short: "Write the beginnings of a handler program",
		Long: `Write a small project in a new folder NAME: a handler program that serves the task type
NAME, a test, a configuration that runs it, and a README with the commands. The package
that the program is written with is in no registry yet: the project has its sources.

The languages are go, python, node, java and sh.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := newScaffold(lang, dir, args[0])
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(scaffoldJSON{folder})
			}
			_, err = fmt.Fprintln(a.stdout, folder)
			a.note("%s says how to go on", filepath.Join(folder, "README.md"))
			return err
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "", "the language: "+languages())
	cmd.Flags().StringVar(&dir, "dir", ".", "where to make the folder")
	return cmd
}

// scaffoldJSON is the line of -o json, described in docs/cli.md.
type scaffoldJSON struct {
	Folder string `json:"folder"`
}

// languages returns the names of the languages that there are templates for.
func languages() string {
	entries, err := scaffolds.ReadDir("scaffold")
	if err != nil {
		panic(err) // it is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, ", ")
}

// newScaffold writes the project and returns its folder.
func newScaffold(lang, dir, name string) (string, error) {
	if !slices.Contains(strings.Split(languages(), ", "), lang) {
		return "", exit(exitUsage, "--lang is %.40q: choose one of %s", lang, languages())
	}
	if !programName.MatchString(name) || len(name) > longestName {
		return "", exit(exitUsage, "the name %.80q: use 1 to %d small letters and digits, a letter first, and single hyphens between them", name, longestName)
	}
	folder := filepath.Join(dir, name)
	switch err := os.Mkdir(folder, 0o777); {
	case errors.Is(err, fs.ErrExist):
		return "", exit(exitFailure, "%s is there already, and nothing is overwritten: choose another name or --dir", folder)
	case err != nil:
		return "", fmt.Errorf("%w; --dir must name a folder that is there and can be written to", err)
	}
	err := fill(folder, path.Join("scaffold", lang), name)
	if err == nil {
		err = vendor(folder, lang)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
}

// fill writes what the templates below root make for the program named.
func fill(folder, root, name string) error {
	return fs.WalkDir(scaffolds, root, func(file string, entry fs.DirEntry, err error) error {
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
		t, err := template.ParseFS(scaffolds, file)
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
