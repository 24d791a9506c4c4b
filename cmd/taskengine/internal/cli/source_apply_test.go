package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// aList is a file of platforms with a line of each kind.
const aList = `# the shops
shop-a

{"name": "shop-b", "values": {"interval": "5m", "retries": 9}, "version": 3}
{"name": "shop-c", "values": {}}
 {"name": "shop-d", "removed": true}
`

func TestAListOfPlatformsIsApplied(t *testing.T) {
	n, by := new(sliceNode), operator()
	r := n.with(t, aList, "apply orders --file - --reason r")
	want := &taskenginev1.ApplyPlatformsRequest{Source: "orders", By: by, Reason: "r", Platforms: []*taskenginev1.PlatformRow{
		{Name: "shop-a"},
		{Name: "shop-b", Values: map[string]string{"interval": "5m", "retries": "9"}, Replace: true, IfVersion: new(uint64(3))},
		{Name: "shop-c", Replace: true},
		{Name: "shop-d", Removed: true},
	}}
	if diff := cmp.Diff([]proto.Message{want}, n.asked, protocmp.Transform()); diff != "" || r.code != 0 {
		t.Errorf("%+v (-want +got)\n%s", r, diff)
	}
	if !strings.Contains(r.stdout, "shop-d    updated") || !strings.Contains(r.stderr, "platforms: 0 created, 4 updated, 0 removed, 0 unchanged") {
		t.Errorf("%+v", r)
	}

	n = new(sliceNode)
	if r = n.with(t, "b\nother\n", "apply orders --file - --prune --dry-run"); r.code != 0 || !strings.Contains(r.stderr, "would be ") || !strings.Contains(r.stderr, "1 platforms are in the configuration") {
		t.Errorf("%+v", r)
	}
	want = &taskenginev1.ApplyPlatformsRequest{Source: "orders", By: by, DryRun: true, Platforms: []*taskenginev1.PlatformRow{
		{Name: "b"}, {Name: "other"}, {Name: "c", Removed: true, IfVersion: new(uint64(7))},
	}}
	if diff := cmp.Diff([]proto.Message{want}, n.asked, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// source apply reads the output of source export.
func TestExportedPlatformsAreApplied(t *testing.T) {
	n := new(sliceNode)
	lines := n.on(t, "export orders").stdout
	if r := n.with(t, lines, "apply orders --file -"); r.code != 0 || len(n.asked) != 1 {
		t.Fatalf("%+v", r)
	}
	row := &taskenginev1.PlatformRow{Name: "b", Values: map[string]string{"interval": "1m0s"}, Replace: true, IfVersion: new(uint64(7))}
	if diff := cmp.Diff(row, n.asked[0].(*taskenginev1.ApplyPlatformsRequest).GetPlatforms()[1], protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestALongListIsAppliedInParts(t *testing.T) {
	var list strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&list, "p%d\n", i)
	}
	n := new(sliceNode)
	if r := n.with(t, list.String(), "apply orders --file -"); r.code != 0 || len(n.asked) != 3 || len(n.asked[2].(*taskenginev1.ApplyPlatformsRequest).GetPlatforms()) != 500 {
		t.Errorf("%d requests, %s", len(n.asked), r.stderr)
	}
}

func TestALineThatIsRefusedIsShown(t *testing.T) {
	for _, format := range []string{"", " -o json"} {
		r := new(sliceNode).with(t, "same\nrefused\nother\n", "apply orders --file -"+format)
		if r.code != exit.Conflict || !strings.Contains(r.stderr, "1 of 3 platforms were not changed") || !strings.Contains(r.stdout, "the platform has changed") {
			t.Errorf("%+v", r)
		}
		if isJSON := format != ""; isJSON != strings.Contains(r.stdout, `{"name":"refused","version":0,"code":"aborted","error":"the platform has changed"}`) ||
			isJSON != strings.Contains(r.stdout, "same") {
			t.Errorf("%s", r.stdout)
		}
	}
}

func TestWrongListsOfPlatformsAreRefused(t *testing.T) {
	for list, words := range map[string]string{
		"a\nb c":                               `line 2 of -: no platform: something follows the name "b": "c"`,
		"\n{":                                  "line 2 of -: no platform",
		`{"values": {}}`:                       "the name is missing",
		`{"name": "a", "interval": "5m"}`:      `unknown field "interval"`,
		`{"name": "a", "values": {"lag": {}}}`: "neither a text nor a number",
		`{"name": "a"} b`:                      "something follows the JSON object",
		"\xff":                                 "is not UTF-8",
		strings.Repeat("x", 70_000):            "read the file of platforms",
	} {
		n := new(sliceNode)
		if r := n.with(t, list, "apply orders --file -"); r.code != exit.Usage || len(n.asked) > 0 || !strings.Contains(r.stderr, words) {
			t.Errorf("%.80q: %+v, want %q", list, r, words)
		}
	}
}
