package calendar_test

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule/calendar"
)

var (
	oracleFull = flag.Bool("oracle.full", false, "compare all changes of all zones since 1990 with the oracle, which takes about ten minutes")
	oracleSeed = flag.Uint64("oracle.seed", 0, "the seed of the random expressions and times; 0: a random one")
)

// zoneinfo is the folder with the time zones of the system. Go and Python read the same files.
const zoneinfo = "/usr/share/zoneinfo"

// request is a line of the input of testdata/oracle.py.
type request struct {
	File  string       `json:"file"`
	From  int64        `json:"from"`
	To    int64        `json:"to"`
	Cases []oracleCase `json:"cases"`
}

type oracleCase struct {
	Expr   string          `json:"expr"`
	Hash   string          `json:"hash"`
	Gap    calendar.Gap    `json:"gap"`
	Repeat calendar.Repeat `json:"repeat"`
}

// The oracle is a program in Python that has its own parser and walks through the time.
func TestFiresAreThoseOfTheOracle(t *testing.T) {
	seed := cmp.Or(*oracleSeed, rand.Uint64())
	t.Logf("-oracle.seed=%d", seed)
	all := zoneFiles(t)
	o := &oracle{zones: all, files: slices.Sorted(maps.Keys(all)), random: rand.New(rand.NewPCG(seed, 0))}
	o.drawExpressions(t)
	var requests []request
	if *oracleFull {
		requests = o.everyChange()
	} else {
		for range 40 {
			requests = append(requests, o.someChange())
		}
	}
	fires, done := 0, 0
	ask(t, requests, func(r request, answers [][]int64) {
		if done++; done%1000 == 0 {
			t.Logf("%d of %d times near a change", done, len(requests))
		}
		for i, c := range r.Cases {
			in := all[r.File]
			e, err := calendar.ParseCron(c.Expr, calendar.Options{Location: in, Gap: c.Gap, Repeat: c.Repeat, Hash: c.Hash})
			if err != nil {
				t.Fatalf("%q: %v", c.Expr, err)
			}
			if d := difference(firesFrom(t, e, r.From, r.To), answers[i], in); d != "" {
				t.Errorf("%q with the name %q in %s, %v, %v, from %d: %s", c.Expr, c.Hash, r.File, c.Gap, c.Repeat, r.From, d)
			}
			fires += len(answers[i])
		}
	})
	t.Logf("%d zones, %d times near a change, %d fires", len(all), len(requests), fires)
	if fires == 0 {
		t.Error("nothing has fired")
	}
}

// zoneFiles returns the zones by their files. Of equal files it has one.
func zoneFiles(t *testing.T) map[string]*time.Location {
	t.Helper()
	zones, seen := make(map[string]*time.Location), make(map[[32]byte]bool)
	err := filepath.WalkDir(zoneinfo, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "right" || d.Name() == "posix" { // the first with leap seconds, the second the same
				return fs.SkipDir
			}
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(data, []byte("TZif")) || seen[sha256.Sum256(data)] {
			return err
		}
		seen[sha256.Sum256(data)] = true
		zones[file], err = time.LoadLocationFromTZData(strings.TrimPrefix(file, zoneinfo+"/"), data)
		return err
	})
	if err != nil {
		t.Fatalf("the test needs the time zones of the system (the package tzdata) in %s: %v", zoneinfo, err)
	}
	if len(zones) < 300 {
		t.Fatalf("%s has only %d time zones; install the package tzdata", zoneinfo, len(zones))
	}
	return zones
}

// oracle makes the requests.
type oracle struct {
	zones  map[string]*time.Location
	files  []string // of zones, in their order, so that the seed decides
	random *rand.Rand
	exprs  [24][]string // some for every hour near which they often fire
}

// drawExpressions draws a thousand expressions, some of them with seconds or H.
func (o *oracle) drawExpressions(t *testing.T) {
	t.Helper()
	for n := 0; n < 1000; {
		hour := n % 24
		at := time.Date(2000, 1, 1, hour, 30, 0, 0, time.UTC)
		expr := expressions(o.random.IntN(20) == 0, at).Example(int(o.random.Uint32())).text
		if o.random.IntN(5) == 0 {
			fields := strings.Fields(expr)
			fields[o.random.IntN(len(fields))] = []string{"H", "H/3", "H(2-5)", "H(5-2)/2", "H(1-6)/4"}[o.random.IntN(5)]
			expr = strings.Join(fields, " ")
		}
		if _, err := calendar.ParseCron(expr, calendar.Options{Hash: "x"}); err != nil {
			continue // it never fires
		}
		o.exprs[hour] = append(o.exprs[hour], expr)
		n++
	}
}

func (o *oracle) everyChange() (requests []request) {
	for _, file := range o.files {
		for _, at := range changes(o.zones[file]) {
			if at > time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Unix() && at < time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).Unix() {
				requests = append(requests, o.near(file, at))
			}
		}
	}
	return requests
}

func (o *oracle) someChange() request {
	for {
		file := o.files[o.random.IntN(len(o.files))]
		if all := changes(o.zones[file]); len(all) > 0 {
			return o.near(file, all[o.random.IntN(len(all))])
		}
	}
}

// near makes a request about the time before and after a change.
func (o *oracle) near(file string, at int64) request {
	hour := time.Unix(at, 0).In(o.zones[file]).Hour()
	exprs := o.exprs[hour]
	r := request{File: file}
	before, after := int64(1+o.random.IntN(12))*3600, int64(26*3600)
	for range 3 {
		expr := exprs[o.random.IntN(len(exprs))]
		r.Cases = append(r.Cases, oracleCase{
			Expr: expr, Hash: fmt.Sprint(o.random.IntN(1000)),
			Gap: calendar.Gap(o.random.IntN(2)), Repeat: calendar.Repeat(o.random.IntN(2)),
		})
		if len(strings.Fields(expr)) == 6 {
			before, after = 3600, 2*3600
		}
	}
	r.From, r.To = max(at-before, 2*86400)/60*60, at+after
	return r
}

// ask passes requests to the program, and its answers on.
func ask(t *testing.T, requests []request, then func(request, [][]int64)) {
	t.Helper()
	python := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	cmd := exec.CommandContext(t.Context(), python, "testdata/oracle.py")
	var input, stderr bytes.Buffer
	for _, r := range requests {
		if err := json.NewEncoder(&input).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Stdin, cmd.Stderr = &input, &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("the test needs Python 3.9 or newer, or its path in $PYTHON: %v", err)
	}
	lines := bufio.NewReader(out)
	for _, r := range requests {
		var answers [][]int64
		line, err := lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &answers)
		}
		if err != nil || len(answers) != len(r.Cases) {
			_ = cmd.Wait()
			t.Fatalf("the oracle has no answer about %+v: %v\n%s", r, err, &stderr)
		}
		then(r, answers)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the oracle: %v\n%s", err, &stderr)
	}
}
