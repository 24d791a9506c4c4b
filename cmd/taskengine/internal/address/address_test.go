package address

import "testing"

func TestAnAddressIsAHostAndPortOrAURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7420": "http://127.0.0.1:7420", "https://tasks.example.com/api/": "https://tasks.example.com/api",
		"ftp://x": "", "": "", "http://": "", "a b": "",
	} {
		if got, ok := URL(address, false); got != want || ok != (want != "") {
			t.Errorf("%q is read as %q, %t", address, got, ok)
		}
	}
}

func TestASecureAddressIsNoURLOfHTTP(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7420": "https://127.0.0.1:7420", "https://tasks.example.com": "https://tasks.example.com", "http://127.0.0.1:7420": "",
	} {
		if got, ok := URL(address, true); got != want || ok != (want != "") {
			t.Errorf("%q is read as %q, %t", address, got, ok)
		}
	}
}

func TestAnAddressMayBeASocket(t *testing.T) {
	for address, want := range map[string]string{"unix:/run/x.sock": "/run/x.sock", "unix:x": "x", "unix:": "", "localhost:1": "", "/run/x.sock": ""} {
		if got, ok := Socket(address); ok != (want != "") || ok && got != want {
			t.Errorf("%q is read as %q, %t", address, got, ok)
		}
	}
}
