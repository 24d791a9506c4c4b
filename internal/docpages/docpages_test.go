package docpages

import (
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBlocksHaveTheirLanguageTitleAndPlace(t *testing.T) {
	const page = "# A\n\n```yaml title=\"a.yaml\"\na: 1\n```\n\ntext\n\n    make a\n    make b\n\n- b\n\n  ```\n  c\n\n  d\n  ```\n\n    last"
	want := []Block{
		{"p.md", 4, "yaml", "a.yaml", "a: 1\n"},
		{"p.md", 9, "", "", "make a\nmake b\n"},
		{"p.md", 15, "", "", "c\n\nd\n"},
		{"p.md", 20, "", "", "last\n"},
	}
	if diff := cmp.Diff(want, blocks("p.md", page)); diff != "" {
		t.Error(diff)
	}
}

func TestThePagesOfTheRepositoryHaveBlocks(t *testing.T) {
	all, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]int)
	for _, b := range all {
		pages[b.Page]++
	}
	if pages["README.md"] == 0 || pages["docs/config.md"] < 10 || pages["docs/adr/0000-template.md"] != 0 {
		t.Errorf("the pages have these numbers of blocks: %v", pages)
	}
}

// Each language of blocks has a test that runs, compiles or parses them. A block of another language needs one, too.
func TestTheLanguageOfEachBlockHasATest(t *testing.T) {
	tests := map[string]string{
		"go": "TestBlocksOfGoAreGo", "console": "TestPagesOfTheManualRunAsTheyAre", "python": "TestBlocksOfPythonAreProgramsForThePackage",
		"ts": "plugins/sdk/node/consumer/blocks.mjs", "js": "plugins/sdk/node/consumer/blocks.mjs", "java": "plugins/sdk/java/consumer/blocks.py",
	}
	data := map[string]bool{"": true, "csv": true, "http": true, "json": true, "mermaid": true, "ruby": true, "sh": true, "sql": true, "yaml": true}
	all, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if tests[b.Language] == "" && !data[b.Language] {
			t.Errorf("%s:%d: no test looks at blocks of %q", b.Page, b.Line, b.Language)
		}
	}
	for language, file := range tests {
		if _, err := os.Stat("../../" + file); strings.Contains(file, "/") && err != nil {
			t.Errorf("the test of blocks of %s: %v", language, err)
		}
	}
}

// elided matches the marks for code that a block of Go leaves out.
var elided = regexp.MustCompile(`\{ ?(\.\.\.|…) ?\}|(?m)^\t*(\.\.\.|…)$`)

func TestBlocksOfGoAreGo(t *testing.T) {
	all, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	mixed := map[string]bool{"docs/api.md": true, "docs/library.md": true, "docs/workflows.md": true} // declarations and statements in one block
	for _, b := range all {
		if b.Language != "go" || mixed[b.Page] {
			continue
		}
		text := elided.ReplaceAllStringFunc(b.Text, func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "...", ""), "…", "") })
		_, err := format.Source([]byte(text))
		if err != nil { // the elements of a literal
			_, err = format.Source([]byte("var _ = T{\n" + text + "}"))
		}
		if err != nil {
			t.Errorf("%s:%d: %v", b.Page, b.Line, err)
		}
	}
}

// sources returns the text of the program, without its tests.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bench" || name == "dist" || d.Name() == "node_modules" || d.Name() == "target" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The first cells of the tables of troubleshooting.md are words of the program. Digits there stand for numbers.
func TestTroubleshootingQuotesTheProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	program, quoted := sources(t), 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?) \\| ").FindAllStringSubmatch(string(page), -1) {
		for _, words := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			quoted++
			for _, part := range regexp.MustCompile(`\d+`).Split(words[1], -1) {
				if part = strings.TrimSpace(part); len(part) > 2 && !strings.Contains(program, part) {
					t.Errorf("the program does not say %q of %q", part, words[1])
				}
			}
		}
	}
	if quoted < 30 {
		t.Errorf("the page quotes only %d texts", quoted)
	}
}

// A row of the comparison, and of README.md, is a row of performance.md, with another name.
func TestTablesOfFiguresAreThoseOfTheMeasurements(t *testing.T) {
	measured, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"docs/comparison.md": 10, "README.md": 4} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		rows := regexp.MustCompile(`(?m)^\| [^|]+(\| [\d –].*\|)$`).FindAllStringSubmatch(string(text), -1)
		for _, row := range rows {
			if !strings.Contains(string(measured), row[1]) {
				t.Errorf("%s has a row that is not in docs/performance.md: %s", page, row[0])
			}
		}
		if len(rows) < least {
			t.Errorf("%s has only %d rows of figures", page, len(rows))
		}
	}
}

func TestReadmeLeadsToEveryPage(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/how-to/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) < 8 {
			t.Fatalf("there are %d pages of %s: %v", len(pages), pattern, err)
		}
		for _, page := range pages {
			if link := "](" + strings.TrimPrefix(page, "../../") + ")"; !strings.Contains(string(readme), link) {
				t.Errorf("the documentation in README.md does not lead to %s", page)
			}
		}
	}
}
