//go:build !race

package arch_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the text of every Markdown file by its path in the module, without the blocks of
// code in it, and the paths of all files and folders.
func documents(t *testing.T) (texts map[string]string, paths map[string]bool) {
	t.Helper()
	texts, paths = make(map[string]string), map[string]bool{".": true}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "target" || name == "dist"):
			return fs.SkipDir
		}
		paths[name] = true
		if filepath.Ext(name) == ".md" {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			texts[name] = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts, paths
}

// anchors returns the anchors of the headings of a Markdown text, as GitHub makes them.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(kept, " ", "-")] = true
	}
	return all
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	texts, paths := documents(t)
	for name, text := range texts {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || file == "NNNN-title.md" {
				continue
			}
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if !paths[to] {
				t.Errorf("%s: the link to %s leads nowhere", name, m[1])
			} else if anchor != "" && texts[to] != "" && !anchors(texts[to])[anchor] {
				t.Errorf("%s: %s has no heading for the link to %s", name, to, m[1])
			}
		}
	}
}

// TestTheDesignNamesFilesAndFunctionsThatExist covers names in backquotes: paths that end in .go, which may
// be short, and methods such as Core.Submit.
func TestTheDesignNamesFilesAndFunctionsThatExist(t *testing.T) {
	texts, paths := documents(t)
	var source strings.Builder
	for name := range paths {
		if (strings.HasPrefix(name, "engine/") || strings.HasPrefix(name, "task/")) && filepath.Ext(name) == ".go" {
			text, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	names := regexp.MustCompile("`([^`*\\s]+)`").FindAllStringSubmatch(texts["docs/design.md"], -1)
	if len(names) < 100 {
		t.Fatalf("docs/design.md names only %d things", len(names))
	}
	isMethod := regexp.MustCompile(`^(Engine|Shell|Batch|Core|Table|Cluster|Window|Change|writer|inbox|catalog)\.(\w+)$`)
	for _, m := range names {
		switch method := isMethod.FindStringSubmatch(m[1]); {
		case filepath.Ext(m[1]) == ".go":
			found := false
			for p := range paths {
				found = found || strings.HasSuffix("/"+p, "/"+m[1])
			}
			if !found {
				t.Errorf("docs/design.md names %s, and there is no such file", m[1])
			}
		case method != nil && method[2] != "mu":
			declared := regexp.MustCompile(`func \(\w+ \*?` + method[1] + `(\[\w+\])?\) ` + method[2] + `\(`)
			if !declared.MatchString(source.String()) {
				t.Errorf("docs/design.md names %s, and there is no such method", m[1])
			}
		}
	}
}
