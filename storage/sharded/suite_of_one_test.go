//go:build !race

package sharded_test

import "testing"

func TestAStoreOfOneBackend(t *testing.T) { runSuite(t, 1) }
