package docpages

import (
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
