//go:build !race

package report_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/bench/report"
)

func TestTheSameResultsMakeTheSamePage(t *testing.T) {
	if a, b := write(t, newMaker(2).some()), write(t, newMaker(2).some()); a.source != b.source {
		t.Error("they do not")
	}
}

func TestThePageLoadsNothing(t *testing.T) {
	d := write(t, newMaker(1).some())
	for _, forbidden := range []string{"http:", "https:", "//fonts", "url(", "@import", "@font-face", "fetch(", "XMLHttp", "import("} {
		if strings.Contains(d.source, forbidden) {
			t.Errorf("it has %q", forbidden)
		}
	}
	policy := ""
	for _, m := range all(d.Node, "meta", "") {
		if attr(m, "http-equiv") == "Content-Security-Policy" {
			policy = attr(m, "content")
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "script-src 'unsafe-inline'") {
		t.Errorf("its policy is %q", policy)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("full")

func TestAFullDiskIsAnError(t *testing.T) {
	if err := report.Write(full{}, nil); !errors.Is(err, errFull) {
		t.Errorf("it is %v", err)
	}
}
