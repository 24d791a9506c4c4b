// Package wire is the protocol between the plugin host and a handler process: the
// messages generated from handler.proto, and what both sides must agree on besides.
package wire

//go:generate ./generate.sh

// What a host and a handler process agree on before they speak. The cookie is no
// secret: it tells a program that a host started it, and not a person.
const (
	Protocol    = 1
	CookieKey   = "TASKENGINE_HANDLER"
	CookieValue = "1f0d6bb2-handler"
)

// Sizes both sides keep to.
const (
	// FrameBytes is when a side stops adding messages to a frame. One message may be
	// larger: it goes in a frame of its own.
	FrameBytes = 1 << 20
	// FrameMessages is how many messages a side puts into one frame at most.
	FrameMessages = 512
	// MaxErrorBytes is how much of an error's text is worth sending.
	MaxErrorBytes = 8 << 10
)
