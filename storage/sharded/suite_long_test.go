//go:build !race

package sharded_test

import "testing"

func TestStore(t *testing.T) { runSuite(t, 3) }

func TestAStoreOfOneBackend(t *testing.T) { runSuite(t, 1) }
