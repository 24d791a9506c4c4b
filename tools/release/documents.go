package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// documentsOf returns the licence of the program and those of the modules in it, as the files of an archive.
func documentsOf(source, built string, p platform) ([]file, error) {
	own, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	others, err := licencesOf(source, built, p)
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "LICENSE", mode: 0o644, content: own},
		{name: "THIRD-PARTY-LICENSES.txt", mode: 0o644, content: others},
	}, nil
}

// licensed are the names of files with licences and notices.
var licensed = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// licencesOf returns the licences of Go and of each module in a program, one after the other. A module without one is an
// error.
func licencesOf(source, built string, p platform) ([]byte, error) {
	info, err := buildinfo.ReadFile(built)
	if err != nil {
		return nil, err
	}
	folders, err := moduleFolders(source, p)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("the folder of Go: %w", err)
	}
	if err := addLicences(&all, "Go "+info.GoVersion, filepath.Join(strings.TrimSpace(string(root)), "LICENSE")); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir := folders[m.Path+"@"+m.Version]
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("the licence of %s %s: %w", m.Path, m.Version, err)
		}
		var names []string
		for _, e := range entries {
			if licensed.MatchString(e.Name()) && !e.IsDir() {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
		if err := addLicences(&all, m.Path+" "+m.Version, names...); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// addLicences adds the files of one module.
func addLicences(all *bytes.Buffer, title string, paths ...string) error {
	if len(paths) == 0 {
		return fmt.Errorf("%s has no file with a licence", title)
	}
	fmt.Fprintf(all, "==== %s\n", title)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "\n%s\n", bytes.TrimSpace(text))
	}
	all.WriteString("\n")
	return nil
}

// moduleFolders returns the folder of each module that the program for a platform is made of, by PATH@VERSION.
func moduleFolders(source string, p platform) (map[string]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}", "./cmd/"+program)
	env, err := buildEnvironment(os.Environ(), "", p)
	if err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Env = source, env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules: %w", err)
	}
	folders := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			folders[name] = dir
		}
	}
	return folders, nil
}
