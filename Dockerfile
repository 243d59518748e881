FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY solver solver
COPY service service
COPY migrations migrations
COPY examples examples
COPY docs/guides docs/guides
RUN python -m venv /opt/stagecut \
 && /opt/stagecut/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home stagecut
COPY --from=build /opt/stagecut /opt/stagecut
ENV PATH=/opt/stagecut/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    STAGECUT_LOG_FORMAT=json \
    STAGECUT_DATABASE_URL=sqlite:////data/stagecut.db
USER stagecut
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["stagecut", "health", "--server", "http://127.0.0.1:8000"]
CMD ["stagecut", "serve", "--host", "0.0.0.0", "--port", "8000"]
