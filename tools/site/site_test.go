package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func TestTheSiteHasEveryPageWithItsNavigation(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	made, err := write(root, out, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || made < len(pages) {
		t.Errorf("the site has %d pages, and docs %d: %v", made, len(pages), err)
	}
	for _, page := range []string{"index.html", "docs/first-hour.html", "docs/how-to/cron.html", "docs/adr/0001-record-architecture-decisions.html"} {
		text, err := os.ReadFile(filepath.Join(out, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"v1.2.3", "how-to/idempotency.html", `type="search"`, "index.js"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", page, want)
			}
		}
		if loaded := regexp.MustCompile(`<(?:script|link|img)[^>]*(?:src|href)="https?:[^"]*"`).Find(text); loaded != nil {
			t.Errorf("%s loads %s", page, loaded)
		}
	}
	index, err := os.ReadFile(filepath.Join(out, "index.js"))
	if err != nil || !strings.Contains(string(index), `"page":"docs/config.html#unique-keys"`) {
		t.Errorf("the search does not find a heading: %v", err)
	}
}

func TestALinkThatLeadsNowhereIsAnError(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"README.md":       "# A\n\n[gone](docs/gone.md), [there](docs/b.md#two), [not there](docs/b.md#three)\n",
		"docs/b.md":       "# B\n\n## Two\n\n[up](../README.md#a)\n",
		"CONTRIBUTING.md": "# C\n", "CHANGELOG.md": "# D\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	const want = "README.md: the link to docs/gone.md leads nowhere\nREADME.md: docs/b.md has no heading for the link to docs/b.md#three"
	if err := check(folder, pages); err == nil || err.Error() != want {
		t.Errorf("the problems are %v, want %s", err, want)
	}
}

func TestAVersionIsOneFolder(t *testing.T) {
	for version, want := range map[string]bool{
		"latest": true, "v1.2.3": true, "v1.2.3-rc.1": true,
		"": false, ".": false, "..": false, "../..": false, "a/b": false, "-a": false,
	} {
		if got := isVersion(version); got != want {
			t.Errorf("%q is a version: %v", version, got)
		}
	}
}
