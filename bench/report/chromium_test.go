//go:build !race

package report_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/bench/result"
)

//go:embed probe_test.js
var probe string

// findings are the results of the probe, which it writes to the title of a page.
type findings struct {
	Flaws    []string
	Texts    int
	Figures  int
	Dark     bool
	Paper    string
	Width    int
	Switched bool
}

// chromium returns the path of a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here, so the page is NOT looked at in a browser; scripts/need chromium installs it")
	return ""
}

// browse opens a page in a window and returns the output of the browser.
func browse(t *testing.T, url, size string, flags ...string) string {
	t.Helper()
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	profile, err := os.MkdirTemp("", "chromium-of-a-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // files that a late process still writes are no failure
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup", // see package browsertest
		"--user-data-dir=" + profile, "--window-size=" + size, "--virtual-time-budget=5000",
	}, flags...)
	cmd := exec.CommandContext(ctx, chromium(t), append(args, url)...)
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("chromium: %v\n%s", err, &errs)
	}
	return out.String()
}

// site serves one page, and counts other requests.
type site struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // guarded by mu
}

func serve(t *testing.T, page string) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(page)) // a browser that has gone is seen elsewhere
			return
		case "/favicon.ico": // browsers ask for it by themselves
		default:
			s.mu.Lock()
			s.asked = append(s.asked, r.URL.Path)
			s.mu.Unlock()
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// probed returns a page with the probe in it, which the page's policy then allows.
func probed(t *testing.T, page string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(probe))
	allowed := "script-src &#39;sha256-" + html.EscapeString(base64.StdEncoding.EncodeToString(sum[:])) + "&#39; "
	for _, r := range [][2]string{{"script-src ", allowed}, {"<style>", "<script>" + probe + "</script><style>"}} {
		if strings.Count(page, r[0]) != 1 {
			t.Fatalf("the page has %q %d times", r[0], strings.Count(page, r[0]))
		}
		page = strings.Replace(page, r[0], r[1], 1)
	}
	return page
}

// inspect opens a page with the probe and returns its findings.
func inspect(t *testing.T, page, size string, flags ...string) (found findings, asked []string) {
	t.Helper()
	s := serve(t, probed(t, page))
	dom := browse(t, s.URL+"/page", size, append(flags, "--dump-dom")...)
	root, err := html.Parse(strings.NewReader(dom))
	if err != nil {
		t.Fatal(err)
	}
	title := ""
	if titles := all(root, "title", ""); len(titles) > 0 && titles[0].FirstChild != nil {
		title = titles[0].FirstChild.Data
	}
	if err := json.Unmarshal([]byte(title), &found); err != nil {
		t.Fatalf("the probe left %q: %v", title, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return found, s.asked
}

func TestInChromiumThePageIsLaidOutWellAndLoadsNothing(t *testing.T) {
	chromium(t)
	everything := newMaker(1).some()
	for i, r := range everything { // two of them so close that only one has a label
		below := result.Objective{Latency: result.InsertToStart, Quantile: 0.99, Below: time.Duration(50+i%2) * time.Millisecond}
		r.Objective = below.Evaluate(r.Runs)
	}
	long := newMaker(3).drains(3)
	long[1].Runs[1].Check = result.Check{Lost: 3, Notes: []string{strings.Repeat("long", 100)}}
	for i, r := range long {
		r.Scenario, r.Purpose = strings.Repeat("unbreakable", 20), strings.Repeat("purpose ", 60)
		r.Subject.Name, r.Subject.Store, r.Subject.Durability = strings.Repeat("name", 30)+fmt.Sprint(i), strings.Repeat("W", 99), strings.Repeat("durable", 50)
	}
	for name, c := range map[string]struct {
		results []*result.Result
		size    string
		dark    bool
	}{
		"wide":       {everything, "1400,1000", false},
		"dark":       {newMaker(2).drains(2), "1100,1000", true},
		"narrow":     {everything, "500,900", false},
		"long names": {long, "1000,1000", false},
		"nothing":    {nil, "1000,1000", false},
	} {
		t.Run(name, func(t *testing.T) {
			var flags []string
			if c.dark {
				flags = []string{"--force-dark-mode"}
			}
			d := write(t, c.results)
			found, asked := inspect(t, d.source, c.size, flags...)
			for _, f := range found.Flaws {
				t.Error(f)
			}
			if len(asked) > 0 {
				t.Errorf("the page asked for %q", asked)
			}
			if want := len(all(d.Node, "figure", "")); found.Figures != want || found.Texts < 10*want {
				t.Errorf("the browser shows %d figures with %d texts, want %d", found.Figures, found.Texts, want)
			}
			if len(c.results) > 0 && !found.Switched {
				t.Error("the legend does not switch its lines")
			}
			if found.Dark != c.dark || (found.Paper == "rgb(255, 255, 255)") == c.dark {
				t.Errorf("dark is %v, and the paper %s", found.Dark, found.Paper)
			}
		})
	}
}

// The test above finds a fault where there is one.
func TestInChromiumFlawsAreNoticed(t *testing.T) {
	chromium(t)
	sound := write(t, newMaker(4).drains(1)).source
	spoilt := sound
	for _, c := range []struct{ old, new string }{
		{"</main>", `<img src="/pixel" alt=""><script>1</script><div>` + strings.Repeat("x", 1000) + "</div></main>"},
		{`<text class="name" x="2"`, `<text class="name" x="-50"`},
		{`<text class="tick" x="60"`, `<text class="tick" x="60" transform="translate(0 7)">0 %</text><text class="tick" x="60"`},
		{`class="stroke" d="M68`, `class="stroke" d="M999`},
	} {
		if !strings.Contains(spoilt, c.old) {
			t.Fatalf("the page has no %q", c.old)
		}
		spoilt = strings.Replace(spoilt, c.old, c.new, 1)
	}
	found, _ := inspect(t, spoilt, "1000,1000")
	for _, want := range []string{
		"the policy forbids img-src", "the policy forbids script-src", "wide in a window of", "is outside of its drawing", "is over", "a line or bar is outside",
	} {
		if !strings.Contains(strings.Join(found.Flaws, "\n"), want) {
			t.Errorf("the findings are %q, without %q", found.Flaws, want)
		}
	}
	t.Run("a request", func(t *testing.T) {
		open := strings.Replace(strings.Replace(sound, "default-src &#39;none&#39;", "default-src *", 1), "</main>", `<img src="/pixel" alt=""></main>`, 1)
		if _, asked := inspect(t, open, "1000,1000"); len(asked) != 1 || asked[0] != "/pixel" {
			t.Errorf("it asked for %q", asked)
		}
	})
}

func TestInChromiumThePageIsPrintedAndPainted(t *testing.T) {
	chromium(t)
	dir := t.TempDir()
	page := filepath.Join(dir, "report.html")
	if err := os.WriteFile(page, []byte(write(t, newMaker(5).drains(3)).source), 0o600); err != nil {
		t.Fatal(err)
	}
	paper, picture := filepath.Join(dir, "report.pdf"), filepath.Join(dir, "report.png")
	browse(t, "file://"+page, "1200,900", "--print-to-pdf="+paper)
	if doc, err := os.ReadFile(paper); err != nil || !bytes.HasPrefix(doc, []byte("%PDF")) {
		t.Errorf("it is printed as %.20q: %v", doc, err)
	}
	browse(t, "file://"+page, "1200,4000", "--screenshot="+picture)
	f, err := os.Open(picture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[[3]uint32]int{}
	for y := range image.Bounds().Dy() {
		for x := range image.Bounds().Dx() {
			r, g, b, _ := image.At(x, y).RGBA()
			colours[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	for name, c := range map[string][3]uint32{"paper": {255, 255, 255}, "the first subject": {0, 0x72, 0xb2}, "the second": {0xd5, 0x5e, 0}, "the third": {0, 0x80, 0x60}} {
		if colours[c] < 500 {
			t.Errorf("only %d pixels have the colour of %s", colours[c], name)
		}
	}
}
