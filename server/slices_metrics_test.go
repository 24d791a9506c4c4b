package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The series of a source, and of its platforms in the configuration: a hundred at most, and none of those that were added while the node
// runs.
func TestPlatformsAreInTheMetrics(t *testing.T) {
	platforms := []string{"a", "bad", "held"}
	for i := range 150 {
		platforms = append(platforms, fmt.Sprintf("p%03d", i))
	}
	inSliceNode(t, map[string]string{"interval": "10m", "retries": "0", "breaker": "3", "probe": "1h"}, platforms, func(n *sliceNode) {
		metrics := server.NewMetrics(nil, server.Build{})
		metrics.Watch(n.engine, nil)
		ctx, cancel := context.WithCancel(n.t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); metrics.WatchSlices(ctx, n.engine, n.slices) }()
		defer func() { cancel(); <-ended }()
		scrape := func() string {
			r := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
			return r.Body.String()
		}
		if text := scrape(); strings.Contains(text, "taskengine_platform") {
			n.t.Error("they are known before the first look")
		}
		time.Sleep(2 * time.Second)
		n.ok(n.AddPlatform(ctx, &taskenginev1.AddPlatformRequest{Source: "orders", Platform: "added"}))
		n.ok(n.PauseSlices(ctx, &taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "held"}))
		time.Sleep(time.Hour - 3*time.Second)
		text := scrape()
		got := seriesOf(n.t, text)
		for series, want := range map[string]float64{
			`taskengine_slices_failed{source="orders"}`:                          3,
			`taskengine_platforms{source="orders",state="active"}`:               152,
			`taskengine_platforms{source="orders",state="paused"}`:               1,
			`taskengine_platforms{source="orders",state="stopped"}`:              1,
			`taskengine_platforms{source="orders",state="problem"}`:              0,
			`taskengine_platform_slices_failed{platform="bad",source="orders"}`:  3,
			`taskengine_platform_slices_open{platform="bad",source="orders"}`:    3,
			`taskengine_platform_stopped{platform="bad",source="orders"}`:        1,
			`taskengine_platform_stopped{platform="a",source="orders"}`:          0,
			`taskengine_platform_slices_failed{platform="held",source="orders"}`: 0,
		} {
			if v, ok := got[series]; !ok || v != want {
				n.t.Errorf("%s is %v, %v, and not %v", series, v, ok, want)
			}
		}
		for series, atLeast := range map[string]float64{
			`taskengine_slices_late_seconds{source="orders"}`:                           2950,
			`taskengine_platform_late_seconds{platform="bad",source="orders"}`:          2950,
			`taskengine_platform_low_water_age_seconds{platform="bad",source="orders"}`: 3550,
			`taskengine_platform_low_water_age_seconds{platform="a",source="orders"}`:   500,
		} {
			if v, ok := got[series]; !ok || v < atLeast || v > atLeast+130 {
				n.t.Errorf("%s is %v, %v", series, v, ok)
			}
		}
		if count := strings.Count(text, "\ntaskengine_platform_stopped{"); count != 100 || strings.Contains(text, `"added"`) {
			n.t.Errorf("%d platforms have series", count)
		}
	})
}
