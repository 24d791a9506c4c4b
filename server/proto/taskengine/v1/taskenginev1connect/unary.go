package taskenginev1connect

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// unary calls a method with one request and one answer. The generated client has it in place of a [connect.Client] of the two messages,
// which would be about 70 functions in the program for each method of the API: these share one.
type unary[Req, Res any] struct {
	client *connect.Client[message, message]
}

// message is any message. Encoders see the message in it.
type message struct{ proto.Message }

func newUnary[Req, Res any](web connect.HTTPClient, url string, opts ...connect.ClientOption) unary[Req, Res] {
	empty := connect.WithResponseInitializer(func(_ connect.Spec, m any) error {
		m.(*message).Message = any(new(Res)).(proto.Message)
		return nil
	})
	return unary[Req, Res]{connect.NewClient[message, message](web, url, append(opts, empty)...)}
}

// CallUnary does what that of a [connect.Client] does. The request has no headers of its own.
func (u unary[Req, Res]) CallUnary(ctx context.Context, req *connect.Request[Req]) (*connect.Response[Res], error) {
	answer, err := u.client.CallUnary(ctx, connect.NewRequest(&message{any(req.Msg).(proto.Message)}))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(any(answer.Msg.Message).(*Res)), nil
}
