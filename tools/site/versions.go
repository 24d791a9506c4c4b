package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// writeVersions writes the list of the versions in a folder, each with its pages, so that the selector of a page leads to the same page of another version if that has
// it. index.html leads to the newest version. Pages of earlier versions read the new list.
func writeVersions(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	versions := make(map[string][]string)
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(folder, e.Name(), "index.js")); err != nil {
			continue
		}
		names = append(names, e.Name())
		err := fs.WalkDir(os.DirFS(filepath.Join(folder, e.Name())), ".", func(name string, _ fs.DirEntry, err error) error {
			if path.Ext(name) == ".html" {
				versions[e.Name()] = append(versions[e.Name()], name)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(names, newerFirst)
	type version struct {
		Name  string   `json:"name"`
		Pages []string `json:"pages"`
	}
	var list []version
	for _, name := range names {
		list = append(list, version{name, versions[name]})
	}
	if err := writeScript(filepath.Join(folder, "versions.js"), "versions", list); err != nil {
		return err
	}
	home := fmt.Sprintf("<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url=%[1]s/index.html\">\n<title>taskengine</title>\n<a href=\"%[1]s/index.html\">taskengine %[1]s</a>\n", names[0])
	return os.WriteFile(filepath.Join(folder, "index.html"), []byte(home), 0o644)
}

// newerFirst orders versions: numbers from the highest, a version before the candidates for it, and names such as latest last.
func newerFirst(a, b string) int {
	numbersA, candidateA := split(a)
	numbersB, candidateB := split(b)
	switch {
	case (numbersA == nil) != (numbersB == nil):
		if numbersA == nil {
			return 1
		}
		return -1
	case !slices.Equal(numbersA, numbersB):
		return slices.Compare(numbersB, numbersA)
	case (candidateA == "") != (candidateB == ""):
		if candidateA == "" {
			return -1
		}
		return 1
	}
	return strings.Compare(candidateB, candidateA)
}

// split returns the numbers of a version such as v1.2.3-rc.1, and the part after them. Another name has no numbers.
func split(version string) (numbers []int, candidate string) {
	var n [3]int
	number, candidate, _ := strings.Cut(version, "-")
	if count, err := fmt.Sscanf(number, "v%d.%d.%d", &n[0], &n[1], &n[2]); count != len(n) || err != nil {
		return nil, version
	}
	return n[:], candidate
}
