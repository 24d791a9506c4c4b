package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEveryPeerRunsEveryJobOnce starts every queue in every setting and has it do a
// little of everything. It needs what bench/peers/run installs.
func TestEveryPeerRunsEveryJobOnce(t *testing.T) {
	base, err := os.MkdirTemp("/var/tmp", "taskengine-peers-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(base, "bin")
	for server, module := range map[string]string{
		"./cmd/taskengine": "../..", "github.com/nats-io/nats-server/v2": ".", "github.com/contribsys/faktory/cmd/faktory": ".",
	} {
		build := exec.Command("go", "build", "-o", bin+"/", server)
		build.Dir = module
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", server, err, out)
		}
	}
	s := &comparison{base: base, bin: bin, others: make(map[string][]float64)}
	for _, sub := range subjects() {
		t.Run(sub.short, func(t *testing.T) {
			about := &tuned{subject: sub}
			middle := sub.variants[len(sub.variants)/2]
			if _, err := s.fresh(t.Context(), about, middle, func(p peer) error { return fewJobs(t, p) }); err != nil {
				t.Error(err)
			}
			if about.Version == "of unknown version" || about.Version == "" || strings.HasSuffix(about.Store, " ") {
				t.Errorf("its version is %q, on %q", about.Version, about.Store)
			}
		})
	}
}

// fewJobs inserts jobs before there are workers and after, in both ways.
func fewJobs(t *testing.T, p peer) error {
	w := newWatch(101)
	for i := range 50 {
		from, to := w.next(1)
		w.ack(from, to, p.insert(t.Context(), payload(i)))
	}
	if err := p.work(t.Context(), w.handle); err != nil {
		return err
	}
	from, to := w.next(51)
	var many [][]byte
	for i := from; i < to; i++ {
		many = append(many, payload(i))
	}
	w.ack(from, to, p.insert(t.Context(), many...))
	idle, err := awaitIdle(t.Context(), p, w, 30*time.Second)
	if r := w.run(time.Now(), time.Second, idle); !r.Check.OK || r.Finished != 101 || r.Attempts != 101 {
		t.Errorf("%d of 101 ran, %d calls; ok is %v: %v", r.Finished, r.Attempts, r.Check.OK, r.Check.Notes)
	}
	return err
}
