package dashboard_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/browsertest"
)

var update = flag.Bool("update", false, "take the pictures of the documentation again")

const (
	picturesFolder = "../docs/pictures"
	maxPicture     = 150_000 // bytes
)

// picture is one picture of the documentation.
type picture struct {
	Path          string   // of its page
	Scheme        string   // light or dark
	Width, Height int      // of the window
	Headings      []string // of the page in it
}

// pictures returns the pictures by the names of their files.
func pictures() map[string]*picture {
	return map[string]*picture{
		"overview-light.png": {Path: "", Scheme: "light", Width: 1200, Height: 860},
		"overview-dark.png":  {Path: "", Scheme: "dark", Width: 1200, Height: 860},
		"task.png":           {Path: "task/" + sceneTask, Scheme: "light", Width: 1200, Height: 1000},
		"workflow.png":       {Path: "workflow/" + sceneWorkflow, Scheme: "dark", Width: 1200, Height: 620},
		"plan.png":           {Path: "plan", Scheme: "light", Width: 1200, Height: 860},
		"limit-narrow.png":   {Path: "limit/provider", Scheme: "light", Width: 360, Height: 720},
	}
}

// scenePages returns the pages of the scene.
func scenePages() http.Handler {
	return dashboard.New(dashboard.Config{Base: "/ui/", API: newScene(), Node: "berlin-1", Planner: scenePlanner{}})
}

// The pictures are those of the pages as they are: taken again with -update if their headings have changed.
func TestPicturesOfTheDocumentationShowThePages(t *testing.T) {
	if *update {
		takePictures(t)
	}
	var taken map[string]*picture
	content, err := os.ReadFile(filepath.Join(picturesFolder, "pictures.json"))
	if err == nil {
		err = json.Unmarshal(content, &taken)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pictures() {
		info, err := os.Stat(filepath.Join(picturesFolder, name))
		switch {
		case err != nil:
			t.Error(err)
			continue
		case info.Size() > maxPicture:
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), maxPicture)
		case taken[name] == nil:
			t.Errorf("%s is not in pictures.json; take the pictures again with -update", name)
			continue
		}
		if got := headings(t, want.Path); !slices.Equal(got, taken[name].Headings) {
			t.Errorf("the page of %s has the headings %q, and had %q; take the pictures again with -update", name, got, taken[name].Headings)
		}
	}
	checkNamed(t)
}

// checkNamed fails the test unless the documentation names every picture, and no other one.
func checkNamed(t *testing.T) {
	t.Helper()
	named := make(map[string]bool)
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`pictures/([\w.-]+\.png)`).FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
			if pictures()[m[1]] == nil {
				t.Errorf("%s names %s, which this test does not take", file, m[1])
			}
		}
	}
	for name := range pictures() {
		if !named[name] {
			t.Errorf("no document names %s", name)
		}
	}
}

// headings returns the texts of the headings of a page.
func headings(t *testing.T, path string) (all []string) {
	t.Helper()
	w := httptest.NewRecorder()
	scenePages().ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/"+path, nil))
	root, err := html.Parse(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%s gives %d, %v", path, w.Code, err)
	}
	var text func(n *html.Node) string
	text = func(n *html.Node) string {
		if n.Type == html.TextNode {
			return n.Data
		}
		var b strings.Builder
		for c := range n.ChildNodes() {
			b.WriteString(text(c))
		}
		return b.String()
	}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (n.Data == "h1" || n.Data == "h2") {
			all = append(all, strings.Join(strings.Fields(text(n)), " "))
		}
	}
	return all
}

// takePictures writes the pictures.
func takePictures(t *testing.T) {
	t.Helper()
	pages := httptest.NewServer(scenePages())
	defer pages.Close()
	p := browsertest.Start(t).Open(t, pages.URL+"/ui/")
	all := pictures()
	for name, one := range all {
		p.Prefer("prefers-color-scheme", one.Scheme)
		p.Resize(one.Width, one.Height)
		p.Go(pages.URL + "/ui/" + one.Path)
		p.Until(`!document.querySelector("main").innerText.includes("is being calculated")`)
		p.Do(`document.activeElement.blur()`)
		if err := os.WriteFile(filepath.Join(picturesFolder, name), p.Shot(), 0o644); err != nil {
			t.Fatal(err)
		}
		one.Headings = headings(t, one.Path)
	}
	content, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(picturesFolder, "pictures.json"), append(content, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
