//go:build unix

package zk

import "testing"

func TestTheVersionOfAServerIsInItsFirstLine(t *testing.T) {
	for line, want := range map[string]string{
		"Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT\n": "3.4.14",
		"Zookeeper version: 3.9.2, built on 2024-02-12 20:59 UTC\n":                                           "3.9.2",
		"srvr is not executed because it is not in the whitelist.\n":                                          "",
		"": "",
	} {
		if got := versionIn(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
