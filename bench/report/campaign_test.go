package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/report"
	"github.com/taskengine/taskengine/bench/result"
)

func campaign(check result.Check) *result.Campaign {
	starts := result.NewHistogram()
	starts.Record(3 * time.Millisecond)
	c := &result.Course{Subject: result.Subject{Name: "<b>queue</b>", Store: "PostgreSQL"}, Database: "PostgreSQL 15", Check: check}
	for i, kind := range []string{"clean", "recovery", "idle-in-tx", "recovery"} {
		from := time.Duration(i) * 300 * time.Second
		c.Phases = append(c.Phases, result.Phase{Kind: kind, From: from, To: from + 300*time.Second, Started: 9, Rate: 1000 + float64(i), Start: starts, Bystander: starts})
	}
	for i := range 1200 {
		c.Seconds = append(c.Seconds, result.Second{At: time.Duration(i+1) * time.Second, Offered: 10, Started: 9, StartP50: 1e6, StartP99: 2e6, Dead: int64(i)})
	}
	alone := &result.Course{Subject: result.Subject{Name: "other", Store: "pebble"}, Phases: c.Phases[:1], Seconds: c.Seconds[:3], Check: result.Check{OK: true}}
	return &result.Campaign{Schema: result.Schema, Began: time.Unix(0, 0), Courses: []*result.Course{c, alone}}
}

func TestThePageOfACampaignHasNoScript(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteCampaign(&b, campaign(result.Check{OK: true})); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"1k/s", "idle-in-tx", "dead rows", "bystander p99", "Every job with an acknowledged insert has ended.", "&lt;b&gt;queue", "<svg"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"<script", "<b>queue", "NaN", "<button"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestThePageOfACampaignSaysWhatIsLost(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteCampaign(&b, campaign(result.Check{Lost: 3})); err != nil {
		t.Fatal(err)
	}
	if page := b.String(); !strings.Contains(page, "3 jobs with an acknowledged insert are lost.") || !strings.Contains(page, "Do not use the figures") {
		t.Error("the page does not say that jobs are lost")
	}
}
