package main

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// greeter is a service with one method. What follows is what protoc generates for
// yours.
type greeter struct{}

func (greeter) hello(name string) string { return "hello, " + name }

const helloMethod = "/example.Greeter/Hello"

var greeterService = grpc.ServiceDesc{
	ServiceName: "example.Greeter",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Hello", Handler: handleHello}},
}

func handleHello( //nolint:revive // the order of grpc.MethodHandler
	service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	name := new(wrapperspb.StringValue)
	if err := decode(name); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: service, FullMethod: helloMethod}
	return interceptor(ctx, name, info, func(_ context.Context, name any) (any, error) {
		return wrapperspb.String(service.(greeter).hello(name.(*wrapperspb.StringValue).Value)), nil
	})
}

func hello(ctx context.Context, conn *grpc.ClientConn, name string) (string, error) {
	text := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, helloMethod, wrapperspb.String(name), text)
	return text.Value, err
}
