package plugins

import (
	"strings"
	"testing"
)

func TestAHandshakeSaysWhereTheProgramServes(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|unix|/tmp/te-1/s|grpc|":      "/tmp/te-1/s",
		"1|1|unix|/tmp/te-1/s|grpc":       "/tmp/te-1/s",
		"1|1|unix|/tmp/te-1/s|grpc||true": "/tmp/te-1/s",
	} {
		if addr, err := parseHandshake(line, false); err != nil || addr.String() != want {
			t.Errorf("%s: %v, %v", line, addr, err)
		}
	}
	if addr, err := parseHandshake("1|1|stdio||json|", true); err != nil || addr != nil {
		t.Errorf("lines: %v, %v", addr, err)
	}
	for line, want := range map[string]string{
		"":                             "without the handshake",
		"hello":                        `it printed "hello"`,
		"2|1|unix|/tmp/s|grpc|":        "no handshake of the protocol",
		"1|1|unix|/tmp/s":              "no handshake of the protocol",
		"1|2|unix|/tmp/s|grpc|":        "speaks version 2",
		"1|1|tcp|127.0.0.1:1234|grpc|": "must serve on a unix socket in $PLUGIN_UNIX_SOCKET_DIR",
		"1|1|unix|/tmp/s|netrpc|":      `"netrpc"`,
		"1|1|stdio|x|json|":            "serves on stdio",
	} {
		if _, err := parseHandshake(line, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", line, err, want)
		}
	}
}
