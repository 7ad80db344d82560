# One image for all services: each runs another `signoff` command. It holds no secret and no
# settings; both come from outside.

FROM python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254 AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/signoff && /opt/signoff/bin/pip install --upgrade pip
# What it needs comes first, in a layer of its own: it changes less often than the code.
COPY pyproject.toml constraints.txt ./
RUN python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = project['optional-dependencies']; print(*project['dependencies'], *(one for extra in extras.values() for one in extra if not one.startswith('signoff[')), sep='\n')" > requirements.txt \
    && /opt/signoff/bin/pip install --constraint constraints.txt --requirement requirements.txt
COPY README.md LICENSE NOTICE hatch_build.py ./
COPY examples/agents examples/agents
COPY examples/start examples/start
COPY core core
COPY channels channels
COPY worker worker
COPY cli cli
RUN /opt/signoff/bin/pip install --no-deps .

FROM python:3.12.14-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254
ENV PATH=/opt/signoff/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Where processes write: a volume that is put there inherits the owner.
RUN useradd --uid 10001 --home-dir /srv/signoff --create-home --shell /usr/sbin/nologin signoff \
    && install --directory --mode 700 --owner signoff --group signoff /srv/signoff/.signoff \
        /srv/signoff/artifacts /srv/signoff/archive
COPY --from=build /opt/signoff /opt/signoff
WORKDIR /srv/signoff
USER 10001:10001
CMD ["signoff", "--help"]
