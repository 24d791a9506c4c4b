package timeslice_test

import (
	"testing"

	"github.com/taskengine/taskengine/timeslice"
)

func TestSettingsHaveTheLayerThatTheyAreFrom(t *testing.T) {
	l := timeslice.Layers{
		File:    valuesOf(t, map[string]string{"interval": "1m", "retries": "1", "lag": "1s", "probe": "5m"}),
		Live:    valuesOf(t, map[string]string{"retries": "2", "lag": "2s", "probe": "6m"}),
		FileOwn: valuesOf(t, map[string]string{"lag": "3s", "probe": "7m"}),
		Own:     valuesOf(t, map[string]string{"probe": "8m", "breaker": "5"}),

		Platforms: 20,
	}
	used, err := l.Settings()
	if err != nil {
		t.Fatal(err)
	}
	check := func(want map[string]string) {
		t.Helper()
		for _, one := range l.Origins(&used) {
			if w, ok := want[one.Name]; ok && w != one.Value+" "+one.From {
				t.Errorf("%+v, want %s", one, w)
			}
			delete(want, one.Name)
		}
		if len(want) > 0 {
			t.Errorf("%v are missing", want)
		}
	}
	check(map[string]string{
		"interval": "1m0s file", "retries": "2 live", "lag": "3s file_own", "probe": "8m0s own", "breaker": "5 own", "catch_up_interval": "1m0s default", "spread": "20ms default",
		"max_open": "64 default", "order": "parallel default", "timeout": "0s default", "overlap": "0s default", "retry_interval": "10s default",
	})
	l.Live = valuesOf(t, map[string]string{"retries": "-1", "start": "2026-01-01T00:00:00Z"}) // which cannot be: used stays in force
	check(map[string]string{"retries": "2 before", "interval": "1m0s file"})
}
