package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

func TestTheVersionsOfASiteLeadToEachOther(t *testing.T) {
	folder := t.TempDir()
	for _, file := range []string{"v1.9.0/index.js", "v1.9.0/index.html", "v1.10.0/index.js", "v1.10.0/docs/faq.html", "other/file"} { // as earlier runs have left them
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := write(root, filepath.Join(folder, "latest"), "latest"); err != nil {
		t.Fatal(err)
	}
	home, err := os.ReadFile(filepath.Join(folder, "index.html"))
	if err != nil || !strings.Contains(string(home), "url=v1.10.0/index.html") {
		t.Errorf("the first page is %s: %v", home, err)
	}
	// The page in the browser: its selector has the versions, and a word in another form finds the same as the one in the documentation.
	seen := browse(t, filepath.Join(folder, "latest", "docs", "faq.html")+"?q=limiting+tenants")
	options := regexp.MustCompile(`<option[^>]*>[^<]*</option>`).FindAllString(seen, -1)
	want := []string{"../../v1.10.0/docs/faq.html", "../../v1.9.0/index.html", ">latest<"}
	if len(options) != len(want) {
		t.Fatalf("the selector has %q", options)
	}
	for i, part := range want {
		if !strings.Contains(strings.ReplaceAll(options[i], "../../../", "../../"), part) {
			t.Errorf("the version %d is %s, want %s", i, options[i], part)
		}
	}
	if _, found, _ := strings.Cut(seen, `id="found"`); !strings.Contains(found[:max(0, strings.Index(found, "</ul>"))], "limit-per-tenant.html") {
		t.Errorf("the search has found %.300s", found)
	}
}

// browse returns a page as it is after its scripts have run in Chromium.
func browse(t *testing.T, page string) string {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("there is no Chromium: scripts/need chromium installs it")
	}
	out, err := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+page).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestWordsWithOneStemAreAFamily(t *testing.T) {
	got := families([]entry{{Title: "Limits", Text: "A limit is limited. Tasks"}, {Heading: "limiting"}})
	if len(got) != 1 || strings.Join(got[0], " ") != "limit limited limiting limits" {
		t.Errorf("the families are %v", got)
	}
}

func TestVersionsAreOrderedFromTheNewest(t *testing.T) {
	versions := []string{"latest", "v1.9.0", "v1.10.0-rc.1", "v1.10.0", "v0.1.0"}
	slices.SortFunc(versions, newerFirst)
	if got := strings.Join(versions, " "); got != "v1.10.0 v1.10.0-rc.1 v1.9.0 v0.1.0 latest" {
		t.Errorf("the order is %s", got)
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
