variable "name" {
  description = "Names every resource, and the installation in CloudWatch."
  type        = string
  default     = "event-gateway"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,18}[a-z0-9]$", var.name))
    error_message = "name is 3 to 20 lower-case letters, digits and dashes, a letter first (load balancers allow no more)."
  }
}

variable "tags" {
  description = "Tags of every resource."
  type        = map(string)
  default     = {}
}

# Network

variable "vpc_id" {
  description = "The VPC to run in."
  type        = string

  validation {
    condition     = startswith(var.vpc_id, "vpc-")
    error_message = "vpc_id is an id, such as vpc-0abc."
  }
}

variable "public_subnet_ids" {
  description = "Subnets of the load balancer, in two or more availability zones."
  type        = list(string)

  validation {
    condition     = length(var.public_subnet_ids) >= 2
    error_message = "A load balancer needs subnets in two availability zones."
  }
}

variable "private_subnet_ids" {
  description = "Subnets of the tasks and of ElastiCache, in two or more availability zones, with a way out (NAT) for call-outs and images."
  type        = list(string)

  validation {
    condition     = length(var.private_subnet_ids) >= 2
    error_message = "Multi-AZ needs subnets in two availability zones."
  }
}

variable "ingress_cidr_blocks" {
  description = "Who may reach the load balancer. Providers of webhooks come from anywhere."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = alltrue([for block in var.ingress_cidr_blocks : can(cidrnetmask(block))])
    error_message = "ingress_cidr_blocks are IPv4 networks, such as 203.0.113.0/24."
  }
}

variable "egress_allow" {
  description = "Networks and host names that call-outs may reach beside the public internet ([egress] allow)."
  type        = list(string)
  default     = []
}

# The front door

variable "certificate_arn" {
  description = "The ACM certificate of the load balancer, in the same region."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:", var.certificate_arn))
    error_message = "certificate_arn is the ARN of an ACM certificate."
  }
}

variable "public_url" {
  description = "The URL that senders of webhooks know; signatures that cover the URL are checked against it."
  type        = string

  validation {
    condition     = can(regex("^https://[^/?#]+[^?#]*$", var.public_url))
    error_message = "public_url begins with https:// and has neither a query nor a fragment."
  }
}

variable "access_logs_bucket" {
  description = "An S3 bucket for the load balancer's access logs; null keeps none."
  type        = string
  default     = null
}

variable "web_acl_arn" {
  description = "A WAFv2 web ACL for the load balancer; null uses none. Webhooks are machines' requests: leave out rules for browsers."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Refuse to destroy the load balancer, and take a last snapshot of ElastiCache."
  type        = bool
  default     = true
}

# What runs

variable "image" {
  description = "The image, with your gateway.toml and modules in /app; give a digest or a version, not latest."
  type        = string

  validation {
    condition     = can(regex("(:[^:/]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "image needs a tag other than latest, or a digest: a rollback must find the old one again."
  }
}

variable "architecture" {
  description = "X86_64 or ARM64; the image must be built for it."
  type        = string
  default     = "ARM64"

  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "architecture is X86_64 or ARM64."
  }
}

variable "environment" {
  description = "More variables of both roles: GATEWAY_<SECTION>_<KEY>, OTEL_…, and what gateway.toml refers to and is no secret."
  type        = map(string)
  default     = {}
}

variable "secrets" {
  description = "Secrets that gateway.toml refers to by { env = \"NAME\" }: the variable's name and the ARN in Secrets Manager."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.secrets) : can(regex("^arn:[a-z-]+:secretsmanager:", arn))])
    error_message = "The values of secrets are ARNs of Secrets Manager."
  }
}

variable "task_policy_arns" {
  description = "IAM policies of the tasks, by a name of yours: what your targets need of AWS. The gateway itself needs none."
  type        = map(string)
  default     = {}
}

variable "enable_execute_command" {
  description = "Allow `aws ecs execute-command` into the tasks."
  type        = bool
  default     = false
}

# Sizes

variable "gateway_cpu" {
  description = "CPU units of a gateway, 1024 being one core."
  type        = number
  default     = 512

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.gateway_cpu)
    error_message = "Fargate has 256, 512, 1024, 2048 and 4096 units."
  }
}

variable "gateway_memory" {
  description = "MiB of memory of a gateway."
  type        = number
  default     = 1024

  validation {
    condition     = var.gateway_memory >= 512
    error_message = "gateway_memory is 512 MiB or more."
  }
}

variable "gateway_count" {
  description = "The least and the most gateways."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 10 }

  validation {
    condition     = var.gateway_count.min >= 1 && var.gateway_count.max >= var.gateway_count.min
    error_message = "gateway_count: 1 <= min <= max."
  }
}

variable "gateway_cpu_target" {
  description = "Percent of CPU that the number of gateways is kept at."
  type        = number
  default     = 60

  validation {
    condition     = var.gateway_cpu_target >= 10 && var.gateway_cpu_target <= 90
    error_message = "gateway_cpu_target is 10 to 90 percent."
  }
}

variable "dispatcher_cpu" {
  description = "CPU units of a dispatcher, 1024 being one core."
  type        = number
  default     = 1024

  validation {
    condition     = contains([256, 512, 1024, 2048, 4096], var.dispatcher_cpu)
    error_message = "Fargate has 256, 512, 1024, 2048 and 4096 units."
  }
}

variable "dispatcher_memory" {
  description = "MiB of memory of a dispatcher, with all that its targets need."
  type        = number
  default     = 2048

  validation {
    condition     = var.dispatcher_memory >= 512
    error_message = "dispatcher_memory is 512 MiB or more."
  }
}

variable "dispatcher_count" {
  description = "The least and the most dispatchers; the least is 1, since a dispatcher is what tells how old the oldest job is."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 20 }

  validation {
    condition     = var.dispatcher_count.min >= 1 && var.dispatcher_count.max >= var.dispatcher_count.min
    error_message = "dispatcher_count: 1 <= min <= max."
  }
}

variable "dispatcher_spot" {
  description = "Run dispatchers on Fargate Spot: cheaper, and stopped at two minutes' notice, which they survive by releasing their jobs."
  type        = bool
  default     = false
}

variable "slots" {
  description = "Attempts that one dispatcher runs at once."
  type        = number
  default     = 100

  validation {
    condition     = var.slots >= 1 && var.slots <= 10000
    error_message = "slots is 1 to 10000."
  }
}

variable "oldest_age_target_seconds" {
  description = "More dispatchers are started while the oldest job that could run has waited for longer than this, and stopped when it waits for less than a quarter of it."
  type        = number
  default     = 20

  validation {
    condition     = var.oldest_age_target_seconds >= 1
    error_message = "oldest_age_target_seconds is 1 or more."
  }
}

# Redis

variable "cluster_mode" {
  description = "A Cluster of `shards` primaries instead of one. Strict order then holds within each of 16 partitions. Cannot be changed once there is data."
  type        = bool
  default     = false
}

variable "shards" {
  description = "Primaries of the Cluster; without cluster_mode there is one."
  type        = number
  default     = 3

  validation {
    condition     = var.shards >= 1 && var.shards <= 90
    error_message = "shards is 1 to 90."
  }
}

variable "replicas" {
  description = "Replicas of each primary, in other availability zones; 1 or more, or a failure loses what was acknowledged."
  type        = number
  default     = 1

  validation {
    condition     = var.replicas >= 1 && var.replicas <= 5
    error_message = "replicas is 1 to 5."
  }
}

variable "node_type" {
  description = "The type of ElastiCache's nodes."
  type        = string
  default     = "cache.t4g.small"

  validation {
    condition     = startswith(var.node_type, "cache.")
    error_message = "node_type is an ElastiCache type, such as cache.m7g.large."
  }
}

variable "valkey_version" {
  description = "The version of Valkey."
  type        = string
  default     = "8.1"

  validation {
    condition     = can(regex("^[89]\\.[0-9]+$", var.valkey_version))
    error_message = "valkey_version is 8.0 or later, such as 8.1."
  }
}

variable "snapshot_retention_days" {
  description = "Days that ElastiCache's daily snapshots are kept; 0 takes none."
  type        = number
  default     = 7

  validation {
    condition     = var.snapshot_retention_days >= 0 && var.snapshot_retention_days <= 35
    error_message = "snapshot_retention_days is 0 to 35."
  }
}

# Keys and logs

variable "kms_key_arn" {
  description = "A KMS key for secrets, logs and data at rest; null uses AWS's own keys. Its policy must let CloudWatch Logs of this region use it."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "Days that logs are kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731], var.log_retention_days)
    error_message = "log_retention_days is one of CloudWatch's: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731."
  }
}

variable "collector_image" {
  description = "The AWS Distro for OpenTelemetry collector, which brings the oldest age to CloudWatch."
  type        = string
  default     = "public.ecr.aws/aws-observability/aws-otel-collector:v0.43.3"
}
