package config

import (
	"strings"
	"testing"
)

func TestOnlyAnAPIThatAsksItsClientsIsOpenToOtherMachines(t *testing.T) {
	for address, isOpen := range map[string]bool{
		"127.0.0.1:1": false, "127.8.8.8:1": false, "'[::1]:1'": false, "localhost:1": false, "api.localhost:1": false, "none": false, "'[::ffff:127.0.0.1]:1'": false,
		"':1'": true, "0.0.0.0:1": true, "'[::]:1'": true, "10.0.0.1:1": true, "node.example.com:1": true, "localhost.example.com:1": true,
	} {
		for more, asks := range map[string]bool{
			"": false, ", tls: {cert: a, key: b}": false, ", insecure: false": false,
			", tls: {cert: a, key: b, client_ca: c}": true, ", tokens: t": true, ", insecure: true": true,
		} {
			_, err := Load(write(t, "api: {listen: "+address+more+"}"), nil, testEnv)
			if isOpen && !asks {
				if err == nil || !strings.Contains(err.Error(), ":1:15: api.listen: ") || !strings.Contains(err.Error(), "taskengine token create") {
					t.Errorf("%s%s: %v", address, more, err)
				}
			} else if err != nil {
				t.Errorf("%s%s: %v", address, more, err)
			}
		}
	}
}

func TestTokensWithoutEncryptionAreAdvisedAgainst(t *testing.T) {
	for text, want := range map[string]bool{
		"listen: ':1', tokens: t":                         true,
		"listen: ':1', tokens: t, tls: {cert: a, key: b}": false,
		"listen: ':1', tokens: t, insecure: true":         false,
		"tokens: t":               false,
		"listen: none, tokens: t": false,
		"listen: 10.0.0.1:1, tls: {cert: a, key: b, client_ca: c}": false,
	} {
		c := mustLoad(t, "api: {"+text+"}")
		said := (&Errors{c.Advice()}).Error()
		if got := strings.Contains(said, "api.tokens: clients on other machines send their tokens without encryption"); got != want {
			t.Errorf("%s: it says %q", text, said)
		}
	}
}
