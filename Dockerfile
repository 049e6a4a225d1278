# A static binary on nothing: no shell, no package manager, not root.
#
# By default the binary is built from the sources. A release passes BINARY=prebuilt, and
# binaries in PLATFORM/fluxgate (such as linux/arm64/fluxgate) instead of the sources.
ARG BINARY=compiled

FROM --platform=$BUILDPLATFORM golang:1.26.8 AS base
RUN mkdir -p /copies /names/bin /names/etc/fluxgate && ln -s ../fluxgate /names/bin/ratelimit && \
    echo 'fluxgate: { server: { http: ":8080" } }' > /names/etc/fluxgate/fluxgate.yaml

FROM base AS compiled
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /fluxgate ./cmd/fluxgate

FROM scratch AS prebuilt
ARG TARGETPLATFORM
COPY ${TARGETPLATFORM}/fluxgate /fluxgate

FROM ${BINARY} AS binary

FROM scratch
COPY --from=base /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=binary /fluxgate /fluxgate
# The name under which Envoy Gateway starts its rate limit service: docs/envoy.md. And a
# configuration that listens on all addresses of the container: one of your own replaces it.
COPY --from=base /names/ /
# The last good rules are kept here: mount a volume to keep them across containers.
COPY --from=base --chown=65532:65532 /copies /var/lib/fluxgate
USER 65532:65532
ENV FLUXGATE_CONFIG=/etc/fluxgate/fluxgate.yaml FLUXGATE_RULES_COPIES=/var/lib/fluxgate
EXPOSE 8080 8081
ENTRYPOINT ["/fluxgate"]
CMD ["serve"]
