"""Numbers and spans pushed to a receiver of OpenTelemetry's protocol (OTLP), over HTTP and in JSON."""
