# A static binary on nothing: no shell, no package manager, not root.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /fluxgate ./cmd/fluxgate && mkdir -p /copies /names/bin && ln -s ../fluxgate /names/bin/ratelimit

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /fluxgate /fluxgate
# The name under which Envoy Gateway starts its rate limit service: docs/envoy.md.
COPY --from=build /names/ /
# The last good rules are kept here: mount a volume to keep them across containers.
COPY --from=build --chown=65532:65532 /copies /var/lib/fluxgate
USER 65532:65532
ENV FLUXGATE_RULES_COPIES=/var/lib/fluxgate
EXPOSE 8080 8081
ENTRYPOINT ["/fluxgate"]
CMD ["serve"]
