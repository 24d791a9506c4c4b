// Package wire is the protocol between the plugin host and a handler process: the messages that are generated from
// handler.proto, and the constants of both sides.
package wire

//go:generate ./generate.sh

// Constants of the handshake. The cookie is no secret: it shows a program that a host has started it.
const (
	Protocol    = 1
	CookieKey   = "TASKENGINE_HANDLER"
	CookieValue = "1f0d6bb2-handler"
	// HandshakeVersion is the first field of the handshake, which is that of HashiCorp's go-plugin.
	HandshakeVersion = 1
	// VersionsKey is the variable with the versions of the protocol that the host speaks.
	VersionsKey = "PLUGIN_PROTOCOL_VERSIONS"
	// SocketDirKey is the variable with the directory for the socket of the process.
	SocketDirKey = "PLUGIN_UNIX_SOCKET_DIR"
)

// Sizes of frames.
const (
	// FrameBytes bounds the size of a frame with several messages. A larger message gets a frame of its own.
	FrameBytes = 1 << 20
	// FrameMessages bounds the number of messages in a frame.
	FrameMessages = 512
	// MaxErrorBytes bounds an error message. Longer ones are cut.
	MaxErrorBytes = 8 << 10
)
