package server

import (
	"context"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// grpcHealth is the health service of gRPC: ready, as /readyz, or not.
type grpcHealth struct {
	healthpb.UnimplementedHealthServer
	app *App
}

// Check implements the health service. All services have the same state.
func (h *grpcHealth) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if h.app.edge.hasStarted() && h.app.notReady() == "" {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
}
