//go:build unix

// Package etl has a workflow that loads data every night.
package etl

import (
	"testing"

	"github.com/taskengine/taskengine/internal/readmetest"
)

func TestTheCommandsOfTheReadmePrintWhatItShows(t *testing.T) {
	const backoff = "types.publish.retry.backoff={fixed: [100ms]}" // so that the test does not wait for it
	if done := readmetest.Run(t, "--set", backoff); done < 12 {
		t.Errorf("README.md has only %d commands", done)
	}
}
