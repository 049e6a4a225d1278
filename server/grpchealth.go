package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/server/slots"
)

// maxWatchers bounds the streams of health of a connection. A client needs one.
const maxWatchers = 4

// grpcHealth is the health service of gRPC: ready, as /readyz, or not.
type grpcHealth struct {
	healthpb.UnimplementedHealthServer
	app      *App
	watchers *slots.Pool // by connection
}

func (h *grpcHealth) status() healthpb.HealthCheckResponse_ServingStatus {
	if h.app.edge.hasStarted() && h.app.notReady() == "" {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}

// Check implements the health service. All services have the same state.
func (h *grpcHealth) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{Status: h.status()}, nil
}

// Watch implements the health service.
func (h *grpcHealth) Watch(_ *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	connection, _ := peer.FromContext(stream.Context())
	release, err := h.watchers.Take(stream.Context(), connection.Addr.String())
	if err != nil {
		return status.Error(codes.ResourceExhausted, "too many health streams")
	}
	defer release()
	for last := healthpb.HealthCheckResponse_UNKNOWN; ; {
		if now := h.status(); now != last {
			last = now
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		if background.Sleep(stream.Context(), time.Second) != nil {
			return nil
		}
	}
}
