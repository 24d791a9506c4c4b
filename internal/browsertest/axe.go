package browsertest

import (
	"embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/npmtest"
)

// axe has the files by which npm gets axe-core, at a version that is pinned.
//
//go:embed axe
var axe embed.FS

// Axe is the program axe-core, which finds faults of pages that keep people out.
type Axe struct{ source string }

// NewAxe gets axe-core by npm. The test is skipped if that cannot be had.
func NewAxe(t testing.TB) *Axe {
	t.Helper()
	folder := npmtest.Install(t, axe, "axe", "the pages are NOT examined by axe-core")
	source, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return &Axe{string(source)}
}

// Examine returns the faults of a page as it is now, by the rules of WCAG 2.2 AA and the best practices of axe-core.
func (a *Axe) Examine(p *Page) []string {
	p.t.Helper()
	if !Get[bool](p, `!!window.axe`) {
		p.Do(a.source + "; undefined")
	}
	return Get[[]string](p, strings.TrimSpace(`
axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.flatMap((v) =>
  v.nodes.map((n) => v.id + " (" + v.impact + "): " + n.html.slice(0, 200) + " " + n.failureSummary.replace(/\s+/g, " "))))`))
}
