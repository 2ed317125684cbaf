# The environment that `make` makes, in a container:
#   docker build -t fedrepro .
#   docker run --rm -v "$PWD/out:/fedrepro/out" fedrepro              # make reproduce; the page is out/quick/index.html
#   docker run --rm fedrepro test                                     # any other target of the Makefile
FROM python:3.11-slim-bookworm

# make runs everything, git names the commit in the results, and some data sets come in packages of npm.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git make npm \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /fedrepro
COPY . .
RUN make .venv/.ready

ENTRYPOINT ["make"]
CMD ["reproduce"]
