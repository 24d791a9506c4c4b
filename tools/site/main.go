// Site makes a site of README.md and the pages in docs: pages in HTML with a navigation, which is the table of README.md, and a search that needs no server.
//
//	go -C tools run ./site [-version VERSION] $PWD
//
// It writes dist/site/VERSION, and beside it the list of all versions that are there, for the selector of each page. A link that leads nowhere is an error. Links to other files of the repository lead to it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

func main() {
	version := flag.String("version", "latest", "the `version`, which is the name of the folder")
	flag.Parse()
	if flag.NArg() != 1 || !filepath.IsAbs(flag.Arg(0)) {
		fmt.Fprintln(os.Stderr, "usage: site [-version VERSION] ABSOLUTE-DIRECTORY")
		os.Exit(2)
	}
	if !isVersion(*version) {
		fmt.Fprintf(os.Stderr, "site: the version %q cannot be the name of a folder: use letters, digits and . _ -, a letter or a digit first\n", *version)
		os.Exit(2)
	}
	out := filepath.Join(flag.Arg(0), "dist", "site", *version)
	pages, err := write(flag.Arg(0), out, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", pages, out)
}

var versionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// isVersion reports whether a version is the name of one folder, which is replaced: .. is that of all sites.
func isVersion(version string) bool { return versionName.MatchString(version) }

// write makes the site of a repository in a folder, which it replaces, and returns how many pages it has.
func write(root, out, version string) (int, error) {
	pages, err := read(root)
	if err != nil {
		return 0, err
	}
	if err := check(root, pages); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	if err := os.CopyFS(filepath.Join(out, "docs", "pictures"), os.DirFS(filepath.Join(root, "docs", "pictures"))); err != nil {
		return 0, err
	}
	groups, err := navigation(pages)
	if err != nil {
		return 0, err
	}
	var index []entry
	for _, p := range pages {
		html, err := p.render(groups, version)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.path, err)
		}
		file := filepath.Join(out, p.target())
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, html, 0o644)); err != nil {
			return 0, err
		}
		index = append(index, p.entries()...)
	}
	return len(pages), errors.Join(
		writeScript(filepath.Join(out, "index.js"), "index", index),
		writeScript(filepath.Join(out, "words.js"), "families", families(index)),
		writeVersions(filepath.Dir(out)),
	)
}

// writeScript writes a value as a script, not as JSON: browsers fetch no files for pages that are files themselves.
func writeScript(file, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Appendf(nil, "const %s = %s;\n", name, text), 0o644)
}
