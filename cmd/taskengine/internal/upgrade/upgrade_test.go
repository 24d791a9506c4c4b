package upgrade

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
)

func TestTablesOfANeighbourFitAndOthersDoNot(t *testing.T) {
	const known = 5
	for at, want := range map[int]Verdict{0: Step, 1: No, 3: No, 4: Step, 5: OK, 6: OK, 7: No} {
		if got := ofTables(at, known); got.Verdict != want || got.What == "" || (want == OK) != (got.Do == "") {
			t.Errorf("tables at version %d are %+v, want %s", at, got, want)
		}
	}
}

func TestAnOlderFormatIsRaised(t *testing.T) {
	if got := ofFormat(3, 3); got.Verdict != OK {
		t.Errorf("the same format is %+v", got)
	}
	if got := ofFormat(2, 3); got.Verdict != Step || !strings.Contains(got.What, "raises it to 3") {
		t.Errorf("an older format is %+v", got)
	}
}

func TestAStoreThatThisUserMayNotReadIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Verdict
		do   string
	}{
		"another user's": {fmt.Errorf("look: %w", fs.ErrPermission), Unknown, "run this as the user of the nodes"},
		"in use":         {fmt.Errorf("look: %w", storage.ErrLocked), Unknown, "--store pebble:FOLDER"},
		"newer":          {fmt.Errorf("look: %w", storage.ErrFormat), No, ""},
		"damaged":        {errors.New("look"), No, "taskengine doctor"},
	} {
		if got := ofError(stores.Location{Driver: config.Pebble}, c.err); got.Verdict != c.want || !strings.Contains(got.Do, c.do) {
			t.Errorf("a store that is %s is %+v", name, got)
		}
	}
}

func TestNodesOfTwoVersionsMayRunAtOnce(t *testing.T) {
	const own = "v3"
	for name, c := range map[string]struct {
		versions []string
		want     Verdict
		says     string
	}{
		"none":                      {nil, OK, "none runs"},
		"this version":              {[]string{"v3", "v3"}, OK, "all run this version"},
		"another one":               {[]string{"v2", "v2"}, OK, "v2: n0, n1; they can run beside"},
		"another one and this one":  {[]string{"v2", "v3"}, OK, "v2: n0; this version: n1;"},
		"two others":                {[]string{"v1", "v2"}, No, "v1: n0; v2: n1"},
		"two others, and this one":  {[]string{"v3", "v1", "v2"}, No, "several other versions"},
		"one that does not say any": {[]string{"v2", ""}, Unknown, "an unknown version: n1"},
	} {
		var all []Node
		for i, v := range c.versions {
			all = append(all, Node{"n" + string(rune('0'+i)), v})
		}
		if got := Nodes(own, all); got.Worst() != c.want || !strings.Contains(got[0].What, c.says) {
			t.Errorf("%s: %+v, want %s: %s", name, got, c.want, c.says)
		}
	}
}

func TestAConfigurationWithAnUnknownKeyIsRefused(t *testing.T) {
	_, err := config.Load("", []string{"api.lissen=1"}, func(string) (string, bool) { return "", false })
	if got := Configuration("f.yaml", err); got.Worst() != No || !strings.Contains(got[0].What, "lissen") {
		t.Errorf("it is %+v", got)
	}
	for file, c := range map[string]struct {
		err  error
		want Verdict
	}{"f.yaml": {nil, OK}, "": {nil, OK}, "none.yaml": {fs.ErrNotExist, Unknown}} {
		if got := Configuration(file, c.err); got.Worst() != c.want {
			t.Errorf("%q, %v is %+v", file, c.err, got)
		}
	}
}

// contents returns the checksums of the files in a folder.
func contents(t *testing.T, folder string) map[string][sha256.Size]byte {
	t.Helper()
	all := make(map[string][sha256.Size]byte)
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAStoreInFilesIsLookedAtAndNotChanged(t *testing.T) {
	for _, kind := range []string{"bolt", "pebble"} {
		driver, _ := stores.Named(kind)
		folder := filepath.Join(t.TempDir(), "data")
		p := stores.Location{Driver: driver.Of, Path: folder, Name: kind + ":" + folder}
		check := func(when string, want Verdict, says string) {
			t.Helper()
			got := Storage(t.Context(), p, slog.New(slog.DiscardHandler))
			if len(got) != 1 || got.Worst() != want || !strings.Contains(got[0].What, says) {
				t.Errorf("%s, %s: %+v, want %s: %s", kind, when, got, want, says)
			}
		}
		check("without a store", OK, "there is no store")
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the folder was made: %v", kind, err)
		}
		s, err := p.Open(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "pebble" { // another process locks a file of bolt against readers after a while only
			check("in use", Unknown, "a node uses")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before := contents(t, folder)
		check("of this program", OK, "which this version reads and writes")
		if diff := cmp.Diff(before, contents(t, folder)); diff != "" {
			t.Errorf("%s: the check has changed the store (-before +after): %s", kind, diff)
		}
		marks, err := filepath.Glob(filepath.Join(folder, "marker.format-version.*"))
		if err != nil {
			t.Fatal(err)
		}
		if kind == "pebble" {
			if err := os.Rename(marks[0], filepath.Join(folder, "marker.format-version.000099.999")); err != nil {
				t.Fatal(err)
			}
			check("of a newer program", No, "written by a newer version")
		}
	}
}
